"""Beyond the paper: training at the noise of its text (sigma = 6) and of its authors' code (sigma = 0.5).

MNIST with a learning rate tuned for each; Cancer at 0.5, to see whether the noise explains what does not reproduce.
"""

from collections.abc import Iterator
from dataclasses import replace

from gradveil.federation.plan import Plan
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP, NON_PRIVATE
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import POPULATION, PRIVACY_FIXED
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Training, Tuned
from gradveil.runs.presets import PAPER_SIGMA
from gradveil.surface import Surface

SEARCH_ROUNDS = 5
PLAIN = (0.03, 0.1, 0.3)
UNDER_NOISE = {0.5: (0.003, 0.01, 0.03, 0.1), 6.0: (0.0005, 0.002, 0.01)}
SIGMAS = (0.5, 6.0)


def noised(method: Method, sigma: float) -> Method:
    """Give a method another constant noise scale."""
    return method if method.noise.silent else replace(method, noise=Constant(sigma))


def work(plan: Plan, sigma: float) -> Tuned:
    """Tune a plan whose method has this noise scale; where noise enters every local step, smaller rates are tried."""
    in_steps = plan.method.surface is Surface.EXAMPLE and not plan.method.noise.silent
    return Tuned(plan, UNDER_NOISE[sigma] if in_steps else PLAIN, min(SEARCH_ROUNDS, plan.rounds))


METHODS = (NON_PRIVATE, FED_SDP, FED_CDP, FED_ALPHA_CDP)
CURVE = (1, 5, 10, 20, 50, 100)
CANCER_RATE = 0.03
FLAT_AFTER = 20
"""Rounds of Fed-SDP at sigma = 6, whose curve wanders between 0.1 and 0.2."""


def table(scale: Scale) -> Table:
    """Lay the table out: accuracy, learning rate and rounds by method and noise scale."""
    cells = (*_cells(scale), *(_on_cancer(scale, method) for method in (FED_CDP, FED_ALPHA_CDP)))
    return Table("noise-scale", "Two noise scales: MNIST, each method tuned, and Cancer", cells, 2.0, NOTES)


NOTES = (
    f"learning rates are chosen after {SEARCH_ROUNDS} rounds on examples held out of training; the test examples play "
    "no part in the choice",
    f"Fed-SDP at sigma = 6 has {FLAT_AFTER} rounds at most, in which its curve hardly rises",
    "`after n` is the accuracy on the test examples on the way",
    f"Cancer has a rate of {CANCER_RATE:g}, which was not searched",
)


def _hinders(method: Method, sigma: float, measure: str) -> str | None:
    """The paper prints accuracies for sigma = 6 and all its rounds."""
    if method.noise.silent or measure != "accuracy":
        return None
    if sigma != PAPER_SIGMA:
        return "other noise"
    return "smaller" if method is FED_SDP else None


def _on_cancer(scale: Scale, method: Method) -> Cell:
    """Train Cancer at the smaller noise, all of the paper's rounds."""
    plan = scale.plan("cancer", noised(method, min(SIGMAS)), learning_rate=CANCER_RATE)
    return Cell(
        row=(f"cancer, sigma = {min(SIGMAS):g}", method.name),
        column=("accuracy",),
        published=PRIVACY_FIXED[(method.name, "accuracy", "cancer")],
        work=Training(plan),
        measure="accuracy",
        reading=readings.of(method.name),
        reason=scale.hinders(plan) or "other noise",
    )


def _cells(scale: Scale) -> Iterator[Cell]:
    for sigma in SIGMAS:
        for method in METHODS:
            if method.noise.silent and sigma != SIGMAS[0]:
                continue
            longest = {"rounds": FLAT_AFTER} if sigma == PAPER_SIGMA and method is FED_SDP else {}
            plan = scale.plan("mnist", noised(method, sigma), **longest)
            row = (f"sigma = {sigma:g}" if not method.noise.silent else "no noise", method.name)
            for measure in ("accuracy", "learning rate", "rounds"):
                yield Cell(
                    row=row,
                    column=(measure,),
                    published=POPULATION[(method.name, "1000", "10")] if measure == "accuracy" else None,
                    work=work(plan, sigma),
                    measure=measure,
                    reading=readings.of(method.name) if measure == "accuracy" else "",
                    reason=scale.hinders(plan) or _hinders(method, sigma, measure),
                )
            for after in (n for n in CURVE if n <= plan.rounds):
                column, measure = (f"after {after}",), f"accuracy after {after}"
                yield Cell(row=row, column=column, published=None, work=work(plan, sigma), measure=measure)
