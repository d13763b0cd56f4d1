"""Tables of epsilon: after T rounds, to a target accuracy, under decaying noise, and by four accountants.

An epsilon here is the paper's figure, recomputed by the rule behind it, unless it is called sound.
"""

from dataclasses import replace

from gradveil.methods import FED_ALPHA_CDP, FED_ALPHA_CDP_SIGMA, FED_CDP, METHODS, NON_PRIVATE, decay
from gradveil.privacy.method import Method
from gradveil.reproduction import interpretations
from gradveil.reproduction.cell import Cell, Headings, Table
from gradveil.reproduction.jobs import EpsilonJob, ExhaustionJob, GuaranteeJob
from gradveil.reproduction.published import ACCOUNTANTS, NOISE_DECAY, PRIVACY_FIXED, PRIVACY_TARGET
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.training_tables import training_cell
from gradveil.runs.presets import PRESETS

SIGMA, STEPS_A_ROUND = 6.0, 100
START, END = 15.0, 4.85
DECAYING = ("linear", "staircase", "exponential", "cyclic")
SOUND = ("fed-sdp", "fed-sdp-client", "fed-cdp", "fed-alpha-cdp")
BENCHMARKS = tuple(dict.fromkeys(dataset for _, _, dataset in PRIVACY_FIXED))


def fixed_rounds(scale: Scale) -> Table:
    """Lay out epsilon and accuracy after the paper's number of rounds, then what the paper does not print.

    That is Fed-SDP at the client, which the paper calls as accurate as Fed-SDP, and the sound epsilon of whole plans.
    """
    printed = (
        _fixed_cell(scale, method, measure, dataset, text) for (method, measure, dataset), text in PRIVACY_FIXED.items()
    )
    at_client = (_fixed_cell(scale, "fed-sdp-client", "accuracy", dataset, None) for dataset in BENCHMARKS)
    sound = (_sound_cell(method, dataset) for method in SOUND for dataset in BENCHMARKS)
    note = (
        "epsilon is the paper's figure, recomputed; sound epsilon is that of the paper's whole plan (N, K, T, L, B, C "
        "and sigma, batches and cohorts as its code draws them) by PLD: of Fed-SDP for one client against whoever sees "
        "the models, of the others against the server"
    )
    cells = (*printed, *at_client, *sound)
    return Table("privacy-fixed-rounds", "Epsilon and accuracy after T rounds", cells, 3.0, (note,))


def _fixed_cell(scale: Scale, method: str, measure: str, dataset: str, printed: str | None) -> Cell:
    row, column = (method, measure), (dataset,)
    if measure == "epsilon":
        return _epsilon_cell(method, PRESETS[dataset].rounds, row, column, printed)
    return training_cell(scale, scale.plan(dataset, METHODS[method].value), row, column, printed)


def _epsilon_cell(method: str, rounds: int, row: Headings, column: Headings, printed: str | None) -> Cell:
    """Account some rounds by the rule behind the paper's figures."""
    of_clients = method.startswith("fed-sdp")
    q, steps = (0.1, rounds + 1) if of_clients else (0.01, STEPS_A_ROUND * rounds)
    return Cell(
        row=row,
        column=column,
        published=printed,
        job=EpsilonJob("moments", SIGMA, q, steps),
        measure="value",
        interpretation=interpretations.CLIENT_RATE if of_clients else interpretations.USED_RATE,
        exact=True,
    )


def _sound_cell(method: str, dataset: str) -> Cell:
    job = GuaranteeJob(Scale(name="paper").plan(dataset, METHODS[method].value))
    return Cell(row=(method, "sound epsilon"), column=(dataset,), published=None, job=job, measure="sound epsilon")


def target_accuracy(scale: Scale) -> Table:
    """Lay out rounds until the accuracy of Fed-SDP is reached, and the epsilon of the printed number of rounds."""
    cells = tuple(
        _target_cell(scale, method, measure, dataset, printed)
        for (method, measure, dataset), printed in PRIVACY_TARGET.items()
        if measure in ("rounds", "epsilon")
    )
    notes = ("rounds are ours, until the printed target is reached; epsilon is that of the printed number of rounds",)
    return Table("privacy-target-accuracy", "Rounds and epsilon to a target accuracy", cells, 1.0, notes)


def _target_cell(scale: Scale, method: str, measure: str, dataset: str, printed: str) -> Cell:
    row, column = (method, measure), (dataset,)
    if measure == "epsilon":
        return _epsilon_cell(method, int(PRIVACY_TARGET[(method, "rounds", dataset)]), row, column, printed)
    cell = training_cell(scale, scale.plan(dataset, METHODS[method].value), row, column, printed)
    return replace(cell, measure=f"rounds to {PRIVACY_TARGET[('any', 'accuracy', dataset)]}")


def noise_decay(scale: Scale) -> Table:
    """Lay out the policies by which sigma decays, at a target epsilon: accuracy, and rounds until it is spent."""
    cells = tuple(
        _decay_cell(scale, policy, measure, dataset, printed)
        for (policy, measure, dataset), printed in NOISE_DECAY.items()
    )
    notes = ("cyclic stops at sigma 4.85, since the printed formula ends with no noise at all",)
    return Table("noise-decay", "Decay of sigma at a target epsilon", cells, 4.0, notes)


def _decay_cell(scale: Scale, policy: str, measure: str, dataset: str, printed: str) -> Cell:
    row, column, rounds = (policy, measure), (dataset,), PRESETS[dataset].rounds
    if measure == "epsilon":
        return _epsilon_cell(policy, rounds, row, column, printed)
    if measure == "rounds":
        budget = float(NOISE_DECAY[("fed-cdp", "epsilon", dataset)])
        return _exhaustion_cell("moments", policy, budget, rounds, row, column, printed)
    spent_in = NOISE_DECAY.get((policy, "rounds", dataset))
    return _policy_cell(scale, policy, dataset, spent_in, row, column, printed)


def _exhaustion_cell(
    accountant: str, policy: str, budget: float, rounds: int, row: Headings, column: Headings, printed: str
) -> Cell:
    """Count the rounds until an accountant has spent a budget; a policy that does not decay keeps its sigma."""
    return Cell(
        row=row,
        column=column,
        published=printed,
        job=ExhaustionJob(accountant, policy if policy in DECAYING else "constant", budget, rounds),
        measure="value",
        interpretation=interpretations.STEP_SCHEDULE,
        exact=True,
    )


def _policy_cell(
    scale: Scale, policy: str, dataset: str, spent_in: str | None, row: Headings, column: Headings, printed: str
) -> Cell:
    """Take the accuracy in the round where the paper's budget is spent, or at the end of a shorter run."""
    plan = scale.plan(dataset, _method_of(policy))
    cell = training_cell(scale, plan, row, column, printed)
    return replace(
        cell,
        measure="accuracy" if spent_in is None else f"accuracy after {min(int(spent_in), plan.rounds)}",
        interpretation=cell.interpretation + (interpretations.CYCLIC if policy == "cyclic" else ""),
    )


def _method_of(policy: str) -> Method:
    """Return the method behind a row."""
    if policy == "exponential":
        return FED_ALPHA_CDP_SIGMA
    if policy in DECAYING:
        return replace(FED_ALPHA_CDP, noise=decay(policy, START, END))
    return {"non-private": NON_PRIVATE, "fed-cdp": FED_CDP, "constant": FED_ALPHA_CDP}[policy]


def accountants(scale: Scale) -> Table:
    """Lay out accuracy and rounds under base and advanced composition, zCDP and the moments accountant, on MNIST."""
    cells = tuple(
        _accountant_cell(scale, policy, measure, accountant, printed)
        for (policy, measure, accountant), printed in ACCOUNTANTS.items()
    )
    notes = ("accuracy is taken in the printed round, in a decay that is laid out over all T rounds",)
    return Table("accountants", "Privacy accountants compared on MNIST", cells, 1.0, notes)


def _accountant_cell(scale: Scale, policy: str, measure: str, accountant: str, printed: str) -> Cell:
    row, column, rounds = (policy, measure), (accountant,), PRESETS["mnist"].rounds
    if measure == "epsilon":
        cell = _epsilon_cell(policy, rounds, row, column, printed)
        return replace(cell, job=EpsilonJob(accountant, SIGMA, 0.01, STEPS_A_ROUND * rounds))
    if measure == "rounds":
        counted = "moments" if accountant == "any" else accountant
        budget = float(ACCOUNTANTS[("any", "epsilon", counted)])
        return _exhaustion_cell(counted, policy, budget, rounds, row, column, printed)
    return _policy_cell(scale, policy, "mnist", ACCOUNTANTS[(policy, "rounds", accountant)], row, column, printed)
