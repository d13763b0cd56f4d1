"""What pruning, DSSGD, random noise, Fed-SDP and Fed-CDP hide, and what they cost in accuracy."""

from collections.abc import Iterator
from dataclasses import replace

from gradveil.methods import DSSGD, FED_CDP, FED_SDP, NON_PRIVATE, PRUNING, RANDOM_NOISE
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Smallest
from gradveil.privacy.schedule import Constant
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Training

DATASETS = ("mnist", "cifar10", "lfw")
LITTLE_NOISE, ITS_RATE = 0.5, 0.03
"""Sigma of the authors' code, and a learning rate for it: those of the presets are for the text's larger sigma."""
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def methods() -> dict[str, Method]:
    """Give the rows; the two settings of Fed-CDP are those of the authors' code and of the paper's text."""
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


def table(scale: Scale) -> Table:
    """Lay the figure out as a table: the paper prints pictures, no numbers."""
    notes = (
        "RMSE of CPL's clamped guess from the update of one example (type 1), and success by the default rule",
        "the paper says that pruning protects past 40 % (MNIST), 50 % (CIFAR-10) and 80 % (LFW)",
    )
    return Table("limitations", "Limits of pruning and noise", tuple(_cells(scale)), 5.0, notes)


def _cells(scale: Scale) -> Iterator[Cell]:
    for name, method in methods().items():
        for dataset in DATASETS:
            rate = {"learning_rate": ITS_RATE} if method.noise == Constant(LITTLE_NOISE) else {}
            plan = scale.plan(dataset, method, **rate)
            yield Cell(
                row=(name,), column=(dataset, "accuracy"), published=None, work=Training(plan), measure="accuracy"
            )
            seen = scale.attacked(dataset, method, 1, beside=False)
            work = replace(seen, plan=replace(seen.plan, batch=1))
            for measure in ("success", "rmse"):
                yield Cell(
                    row=(name,),
                    column=(dataset, measure),
                    published=None,
                    work=work,
                    measure=measure,
                    reading=readings.ATTACK,
                )
