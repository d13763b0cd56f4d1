"""Tables of accuracy and cost: datasets, clients, clipping bounds, seconds, adaptive clipping, and two noise scales."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from gradveil.federation.plan import Plan
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP, METHODS, NON_PRIVATE
from gradveil.privacy.clip import PerLayer
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant
from gradveil.reproduction import interpretations
from gradveil.reproduction.cell import Cell, Headings, Table
from gradveil.reproduction.jobs import SettingJob, SizeJob, TimingJob, TrainingJob, TuningJob
from gradveil.reproduction.published import (  # fmt: skip
    ADAPTIVE,
    CLIPPING,
    DATASETS,
    POPULATION,
    POPULATION_COST,
    PRIVACY_FIXED,
    TIME_COST,
)
from gradveil.reproduction.scale import Scale
from gradveil.runs.preset_kinds import PAPER_SIGMA
from gradveil.surface import Surface

COUNTED = ("training", "validation", "features", "classes")
"""Rows of `datasets` that the data itself tells."""
SEARCH_ROUNDS = 5
PLAIN_RATES = (0.03, 0.1, 0.3)
NOISY_RATES = {0.5: (0.003, 0.01, 0.03, 0.1), 6.0: (0.0005, 0.002, 0.01)}
SIGMAS = (0.5, 6.0)
CURVE = (1, 5, 10, 20, 50, 100)
CANCER_RATE = 0.03
FLAT_AFTER = 20
"""Rounds of Fed-SDP at sigma = 6, whose curve wanders between 0.1 and 0.2."""


def training_cell(scale: Scale, plan: Plan, row: Headings, column: Headings, published: str | None) -> Cell:
    """Return a cell for the accuracy of a plan; a figure of the paper is compared if the plan is the paper's."""
    return Cell(
        row=row,
        column=column,
        published=published,
        job=TrainingJob(plan),
        measure="accuracy",
        interpretation=interpretations.of_training(plan.method.name),
        reason=None if published is None else scale.hinders(plan),
    )


def _timing_cell(plan: Plan, row: Headings, column: Headings, published: str, measure: str = "seconds") -> Cell:
    return Cell(row=row, column=column, published=published, job=TimingJob(plan), measure=measure, reason="machine")


def datasets(scale: Scale) -> Table:
    """Lay out the benchmark datasets and their settings, with accuracy and cost of training without protection."""
    cells = tuple(_dataset_cell(scale, quantity, dataset, printed) for (quantity, dataset), printed in DATASETS.items())
    notes = ("training counts include examples held out for choices; the paper's validation data is our test data",)
    return Table("datasets", "Benchmark datasets and parameters", cells, 2.0, notes)


def _dataset_cell(scale: Scale, quantity: str, dataset: str, printed: str) -> Cell:
    row, column = (quantity,), (dataset,)
    if quantity == "accuracy":
        return training_cell(scale, scale.plan(dataset, NON_PRIVATE), row, column, printed)
    if quantity == "milliseconds":
        return _timing_cell(scale.plan(dataset, NON_PRIVATE), row, column, printed, quantity)
    job = SizeJob(dataset, quantity) if quantity in COUNTED else SettingJob(dataset, quantity)
    return Cell(row=row, column=column, published=printed, job=job, measure="value", exact=True)


def population(scale: Scale) -> Table:
    """Lay out accuracy over the number of clients and the percentage that trains in a round, and the cost of a step."""
    notes = ("at desk scale the cohort is 5, 10, 20 or 50 clients, whatever N is",)
    return Table("population", "Accuracy over N and K / N on MNIST", tuple(_population_cells(scale)), 4.0, notes)


def _population_cells(scale: Scale) -> Iterator[Cell]:
    for (method, clients, percent), printed in POPULATION.items():
        bounds = scale if scale.cohort is None or scale.small else replace(scale, cohort=int(percent))
        size = {"clients": int(clients), "cohort": max(1, int(clients) * int(percent) // 100)}
        plan = bounds.plan("mnist", METHODS[method].value, **size)
        yield training_cell(scale, plan, (method,), (f"N = {clients}", f"{percent} %"), printed)
    for (method,), printed in POPULATION_COST.items():
        yield _timing_cell(scale.plan("mnist", METHODS[method].value), (method,), ("cost", "s"), printed)


def clipping_bound(scale: Scale) -> Table:
    """Lay out accuracy over the clipping bound C, by method and dataset."""

    def plan(dataset: str, method: str, bound: str) -> Plan:
        value = METHODS[method].value
        return scale.plan(dataset, value if bound == "any" else replace(value, clip=PerLayer(float(bound))))

    cells = tuple(
        training_cell(scale, plan(dataset, method, bound), (dataset, method), ("C", bound), printed)
        for (dataset, method, bound), printed in CLIPPING.items()
    )
    note = (
        "one learning rate for all C of a method and dataset, searched at C = 4: what is clipped harder moves less, "
        "and would bear a larger one"
    )
    return Table("clipping-bound", "Accuracy over the clipping bound C", cells, 9.0, (note,))


def time_cost(scale: Scale) -> Table:
    """Lay out the seconds of a local iteration."""
    cells = tuple(
        _timing_cell(scale.plan(dataset, METHODS[method].value), (method,), (dataset,), printed)
        for (method, dataset), printed in TIME_COST.items()
    )
    notes = ("one client on one core, compilation left out; the paper's machine had a GPU",)
    return Table("time-cost", "Seconds per local iteration and client", cells, 2.0, notes)


def adaptive_clipping(scale: Scale) -> Table:
    """Lay out accuracy, cost and resilience of Quantile clipping and AdaClip, compared with Fed-alphaCDP[sigma]."""
    cells = tuple(
        _adaptive_cell(scale, method, measure, dataset, printed)
        for (method, measure, dataset), printed in ADAPTIVE.items()
    )
    notes = ("resilient: MNIST at surface 2, by the paper's rule",)
    return Table("adaptive-clipping", "Adaptive clipping compared", cells, 3.0, notes)


def _adaptive_cell(scale: Scale, method: str, measure: str, dataset: str, printed: str) -> Cell:
    row, value = (method, measure), METHODS[method].value
    if measure == "accuracy":
        return training_cell(scale, scale.plan(dataset, value), row, (dataset,), printed)
    if measure == "seconds":
        return _timing_cell(scale.plan(dataset, value), row, (dataset,), printed)
    return Cell(
        row=row,
        column=("all",),
        published=printed,
        job=scale.attack_job("mnist", value, 2, identify=False),
        measure="resilient by the paper's rule",
        interpretation=interpretations.PAPER_RULE,
    )


def noise_scale(scale: Scale) -> Table:
    """Lay out training at the noise of the paper's text (sigma = 6) and of its authors' code (0.5): not in the paper.

    MNIST has a learning rate tuned for each; Cancer at 0.5 shows whether the noise explains what does not reproduce.
    """
    runs = [(sigma, method) for sigma in SIGMAS for method in (NON_PRIVATE, FED_SDP, FED_CDP, FED_ALPHA_CDP)]
    cells = [
        cell
        for sigma, method in runs
        if sigma == SIGMAS[0] or not method.noise.silent
        for cell in _tuned_cells(scale, method, sigma)
    ]
    cells += [_cancer_cell(scale, method) for method in (FED_CDP, FED_ALPHA_CDP)]
    notes = (
        f"learning rates are chosen after {SEARCH_ROUNDS} rounds on examples held out of training; the test examples "
        "play no part in the choice",
        f"Fed-SDP at sigma = 6 has {FLAT_AFTER} rounds at most, in which its curve hardly rises",
        "`after n` is the accuracy on the test examples on the way",
        f"Cancer has a rate of {CANCER_RATE:g}, which was not searched",
    )
    return Table("noise-scale", "Two noise scales: MNIST, each method tuned, and Cancer", tuple(cells), 2.0, notes)


def _with_sigma(method: Method, sigma: float) -> Method:
    return method if method.noise.silent else replace(method, noise=Constant(sigma))


def _tuned_cells(scale: Scale, method: Method, sigma: float) -> Iterator[Cell]:
    """Yield accuracy, learning rate and rounds of a tuned run, then its accuracy on the way."""
    silent = method.noise.silent
    rounds = {"rounds": FLAT_AFTER} if sigma == PAPER_SIGMA and method is FED_SDP else {}
    plan = scale.plan("mnist", _with_sigma(method, sigma), **rounds)
    row = ("no noise" if silent else f"sigma = {sigma:g}", method.name)
    cell = partial(Cell, row=row, job=_tuning(plan, sigma))
    yield cell(
        column=("accuracy",),
        published=POPULATION[(method.name, "1000", "10")],
        measure="accuracy",
        interpretation=interpretations.of_training(method.name),
        reason=scale.hinders(plan) or _other_noise(method, sigma),
    )
    for measure in ("learning rate", "rounds"):
        yield cell(column=(measure,), published=None, measure=measure, reason=scale.hinders(plan))
    for after in (n for n in CURVE if n <= plan.rounds):
        yield cell(column=(f"after {after}",), published=None, measure=f"accuracy after {after}")


def _tuning(plan: Plan, sigma: float) -> TuningJob:
    """Tune a plan whose method has this noise scale; where noise enters every local step, smaller rates are tried."""
    in_steps = plan.method.surface is Surface.EXAMPLE and not plan.method.noise.silent
    return TuningJob(plan, NOISY_RATES[sigma] if in_steps else PLAIN_RATES, min(SEARCH_ROUNDS, plan.rounds))


def _other_noise(method: Method, sigma: float) -> str | None:
    """Say why an accuracy is not compared: the paper prints those for sigma = 6 and all its rounds."""
    if method.noise.silent:
        return None
    if sigma != PAPER_SIGMA:
        return "other noise"
    return "smaller" if method is FED_SDP else None


def _cancer_cell(scale: Scale, method: Method) -> Cell:
    """Train Cancer at the smaller noise, all of the paper's rounds."""
    sigma = min(SIGMAS)
    plan = scale.plan("cancer", _with_sigma(method, sigma), learning_rate=CANCER_RATE)
    printed = PRIVACY_FIXED[(method.name, "accuracy", "cancer")]
    cell = training_cell(scale, plan, (f"cancer, sigma = {sigma:g}", method.name), ("accuracy",), printed)
    return replace(cell, reason=cell.reason or "other noise")
