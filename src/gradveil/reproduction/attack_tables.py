"""Tables and figures of attacks: three attacks compared, resilience at three surfaces, settings, limits of defenses."""

from collections.abc import Iterator
from dataclasses import replace

from gradveil.methods import DSSGD, FED_CDP, FED_SDP, METHODS, NON_PRIVATE, PRUNING, RANDOM_NOISE
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Smallest
from gradveil.privacy.schedule import Constant
from gradveil.reproduction import interpretations
from gradveil.reproduction.cell import Cell, Headings, Table
from gradveil.reproduction.executor import DISTANCES, STARTS
from gradveil.reproduction.jobs import AttackJob, TrainingJob
from gradveil.reproduction.published import ATTACK_COMPARISON, RESILIENCE
from gradveil.reproduction.scale import Scale

RESILIENCE_MEASURES = {
    "resilient": ("resilient by the paper's rule", interpretations.PAPER_RULE),
    "rmse": ("median rmse", interpretations.MEDIAN),
    "iterations": ("iterations", interpretations.ATTACK),
}
"""By column of the paper: how it is measured, and how the paper was interpreted."""
ATTACKED_AFTER = (0, 1, 10, 50)
"""Rounds of training after which a network is attacked."""
LITTLE_NOISE, ITS_RATE = 0.5, 0.03
"""Sigma of the authors' code, and a learning rate for it: those of the presets are for the text's larger sigma."""
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of gradients that are pruned."""
UNPROTECTED = (("mnist", 2), ("cifar10", 2), ("lfw", 2), ("lfw", 0))
"""Datasets and surfaces of the first figure; the last is the updates of a batch of three."""
FIGURES = ("attack-visualisation", "attack-evaluation")
FIGURE_NOTES = ("each cell has a picture: truth, the guess at several moments, the guess that reads no gradient",)


def _unpublished(row: Headings, column: Headings, job: AttackJob, measure: str) -> Cell:
    """Return a cell of an attack for which the paper prints no figure."""
    return Cell(
        row=row,
        column=column,
        published=None,
        job=job,
        measure=measure,
        interpretation=interpretations.ATTACK,
    )


def comparison(scale: Scale) -> Table:
    """Lay out DLG, GradInv and CPL on single examples without protection: success, quality, iterations."""
    cells = tuple(
        Cell(
            row=(attack, measure),
            column=(dataset,),
            published=printed,
            job=scale.attack_job(dataset, NON_PRIVATE, 2, attack=attack, identify=False),
            measure=measure,
            interpretation=interpretations.ATTACK,
            reason=None if measure == "success" else "undefined",
        )
        for (attack, measure, dataset), printed in ATTACK_COMPARISON.items()
    )
    notes = ("quality is the RMSE of the clamped guess; the paper's two tables print 0.120 and 0.0008 for one of them",)
    return Table("attack-comparison", "Gradient leakage attacks compared", cells, 5.0, notes)


def resilience(scale: Scale) -> Table:
    """Lay out the paper's attack at every surface of every method, and what a strong attacker gains.

    Of each dataset there are three columns of the paper, then three of ours.
    """
    notes = (
        "iterations: until the clamped RMSE is at most 0.1; the start of CPL itself already passes the cut of 0.6",
        "gain: how much nearer than the public mean the strong attacker (map) comes, RMSE; above 0 the gradient leaks",
        "which of 10: how often the true record is picked out of ten, 0.1 by chance",
        "verdict: whether the strong attacker found a leak, by gain and identification with their intervals",
        "the cut of 0.6 calls a guess that left the picture resilient: it tells of the line search, not of a leak",
    )
    return Table("resilience", "Attack effect at the three surfaces", tuple(_resilience_cells(scale)), 14.0, notes)


def _resilience_cells(scale: Scale) -> Iterator[Cell]:
    for (surface, method, dataset, column), printed in RESILIENCE.items():
        row, value = (f"type {surface}", method), METHODS[method].value
        measure, interpretation = RESILIENCE_MEASURES[column]
        yield Cell(
            row=row,
            column=(dataset, column),
            published=printed,
            job=scale.attack_job(dataset, value, int(surface), identify=False),
            measure=measure,
            interpretation=interpretation,
            reason=None if column == "resilient" else "undefined",
        )
        if column == "iterations":
            strong = scale.attack_job(dataset, value, int(surface), attack="map", iterations=20)
            for ours in ("gain", "which of 10", "verdict"):
                yield Cell(row=row, column=(dataset, ours), published=None, job=strong, measure=ours)


def attack_settings(scale: Scale) -> Table:
    """Lay out what the attacker's choices matter: start, distance and round; the paper prints nothing of it."""
    notes = (
        "CPL on single MNIST examples without protection; `round` is attacked on the attack network as it is trained",
        "the paper says that early gradients leak more, and that the start matters, without figures",
    )
    cells = (*_choice_cells(scale), *_round_cells(scale))
    return Table("attack-settings", "Start, distance and round of an attack", cells, 3.0, notes)


def _choice_cells(scale: Scale) -> Iterator[Cell]:
    for start in STARTS:
        for distance in DISTANCES:
            job = scale.attack_job("mnist", NON_PRIVATE, 2, start=start, distance=distance, identify=False)
            for measure in ("success", "rmse", "iterations"):
                yield _unpublished((start, distance), (measure,), job, measure)


def _round_cells(scale: Scale) -> Iterator[Cell]:
    """Yield the accuracy of the network after some rounds, and what an attack on it reaches."""
    fresh = scale.attack_job("mnist", NON_PRIVATE, 2, identify=False)
    plan = replace(scale.plan("mnist", NON_PRIVATE), model=fresh.plan.model)
    for rounds in (r for r in ATTACKED_AFTER if r <= scale.deepest):
        row = (f"after round {rounds}", "squared L2")
        training = TrainingJob(replace(plan, rounds=rounds)) if rounds else None  # before the first there is none
        yield Cell(row=row, column=("accuracy",), published=None, job=training, measure="accuracy")
        for measure in ("success", "rmse", "iterations"):
            yield _unpublished(row, (measure,), replace(fresh, plan=plan, round=rounds), measure)


def limitations(scale: Scale) -> Table:
    """Lay out what pruning and noise hide and cost: the paper prints this figure as pictures, no numbers."""
    notes = (
        "RMSE of CPL's clamped guess from the update of one example (type 1), and success by the default rule",
        "the paper says that pruning protects past 40 % (MNIST), 50 % (CIFAR-10) and 80 % (LFW)",
    )
    cells = tuple(
        cell
        for name, method in _limited_methods().items()
        for dataset in ("mnist", "cifar10", "lfw")
        for cell in _limitation_cells(scale, name, method, dataset)
    )
    return Table("limitations", "Limits of pruning and noise", cells, 5.0, notes)


def _limited_methods() -> dict[str, Method]:
    """Return the rows; the two settings of Fed-CDP are those of the authors' code and of the paper's text."""
    pruned = {f"pruning {ratio:.0%}": replace(PRUNING, prune=Smallest(ratio)) for ratio in RATIOS}
    return {
        "non-private": NON_PRIVATE,
        **pruned,
        "dssgd": DSSGD,
        "random noise": RANDOM_NOISE,
        "fed-sdp": FED_SDP,
        "fed-cdp, sigma 0.5": replace(FED_CDP, noise=Constant(LITTLE_NOISE)),
        "fed-cdp, sigma 6": FED_CDP,
        "pruning 30% and fed-cdp, sigma 0.5": replace(
            FED_CDP, name="pruned-fed-cdp", prune=Smallest(0.3), noise=Constant(LITTLE_NOISE)
        ),
    }


def _limitation_cells(scale: Scale, name: str, method: Method, dataset: str) -> Iterator[Cell]:
    rate = {"learning_rate": ITS_RATE} if method.noise == Constant(LITTLE_NOISE) else {}
    training = TrainingJob(scale.plan(dataset, method, **rate))
    yield Cell(row=(name,), column=(dataset, "accuracy"), published=None, job=training, measure="accuracy")
    attack = scale.attack_job(dataset, method, 1, identify=False)
    single = replace(attack, plan=replace(attack.plan, batch=1))
    for measure in ("success", "rmse"):
        yield _unpublished((name,), (dataset, measure), single, measure)


def visualization(scale: Scale) -> Table:
    """Lay out the figure of attacks without protection."""
    cells = tuple(_figure_cell(scale, (dataset,), dataset, NON_PRIVATE, surface) for dataset, surface in UNPROTECTED)
    return Table("attack-visualisation", "What CPL rebuilds without protection", cells, 1.0, FIGURE_NOTES)


def evaluation(scale: Scale) -> Table:
    """Lay out the figure of attacks under protection."""
    cells = tuple(
        _figure_cell(scale, (dataset, method), dataset, METHODS[method].value, surface)
        for dataset in ("mnist", "lfw")
        for method in ("non-private", "fed-sdp", "fed-alpha-cdp-sigma")
        for surface in range(3)
    )
    return Table("attack-evaluation", "What CPL rebuilds under protection", cells, 1.0, FIGURE_NOTES)


def _figure_cell(scale: Scale, row: Headings, dataset: str, method: Method, surface: int) -> Cell:
    return _unpublished(row, (f"type {surface}",), scale.attack_job(dataset, method, surface, identify=False), "rmse")
