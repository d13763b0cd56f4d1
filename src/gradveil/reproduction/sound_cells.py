"""Which cells the table of sound accuracy has, and the record that one of them leaves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean, median, stdev

DATASETS = ("mnist", "fashion-mnist", "cifar10", "lfw", "adult", "cancer")
EPSILONS = (0.5, 0.823, 1.0, 3.0, 8.0)
"""Targets; 0.823 is what the paper claims for MNIST and CIFAR-10."""
ROWS = (("fed-sum", "aggregate"), ("fed-sum", "server"), ("fed-cdp", "server"))
"""Methods that have a finite epsilon, and the adversary that it holds against."""
QUICK = ("adult", "cancer")
"""Datasets on which Fed-CDP, which trains in many small steps, takes no longer than the rest of the table."""
SEEDS = 5
PROJECTED = "fed-sum-random-map"
"""Fed-sum whose features are projected at random, by no map that was fitted to procedural pictures."""


def _about(text: str) -> dict[str, str]:
    return {"description": text}


@dataclass(frozen=True, slots=True, order=True)
class SoundSetting:
    """A row and a column of the table: what is trained, and with how much epsilon against whom."""

    dataset: str
    method: str
    threat_model: str
    target_epsilon: float

    @property
    def is_run(self) -> bool:
        """Whether the table runs it; what it does not run is shown as not run."""
        return self.method != "fed-cdp" or self.dataset in QUICK


FURTHER = (SoundSetting("mnist", PROJECTED, "aggregate", 0.823), SoundSetting("adult", "fed-sum", "server", 0.28))
"""Cells outside the grid: what glyphs add on MNIST, and the epsilon that the paper prints for Adult."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundRecord:
    """One run behind the table of sound accuracy, as `gradveil table sound --json` prints it."""

    dataset: str
    method: str
    threat_model: str = field(metadata=_about("the adversary that epsilon holds against"))
    target_epsilon: float = field(metadata=_about("what the noise was solved for"))
    epsilon: float = field(metadata=_about("what the run spent, accounted after it; never above the target"))
    delta: float
    unit: str = field(metadata=_about("whose presence is hidden: one example or one client"))
    seed: int = field(metadata=_about("of the noise and of who holds what"))
    accuracy: float = field(metadata=_about("on the test examples"))
    rounds: int
    seconds: float = field(metadata=_about("of training; features are extracted once before"))
    plan_sha256: str = field(metadata=_about("digest of the plan that was trained"))
    data_sha256: str = field(metadata=_about("digest of the dataset as it was loaded"))
    versions: dict[str, str]

    @property
    def setting(self) -> SoundSetting:
        """The cell that the run belongs to."""
        return SoundSetting(self.dataset, self.method, self.threat_model, self.target_epsilon)


@dataclass(frozen=True, slots=True)
class SoundMean:
    """A filled cell: mean accuracy over n seeds, standard deviation between them (None of one).

    seconds: the median; the first run of a kind compiles its programs as well.
    """

    accuracy: float
    spread: float | None
    n: int
    epsilon: float
    seconds: float


def settings(datasets: Sequence[str]) -> Iterator[SoundSetting]:
    """Give all cells of some datasets, row by row, then those outside the grid."""
    for dataset in datasets:
        for method, threat_model in ROWS:
            yield from (SoundSetting(dataset, method, threat_model, epsilon) for epsilon in EPSILONS)
        yield from (setting for setting in FURTHER if setting.dataset == dataset)


def means(records: Sequence[SoundRecord]) -> dict[SoundSetting, SoundMean]:
    """Average the runs of each cell over their seeds; epsilon is the largest of them."""
    runs: dict[SoundSetting, list[SoundRecord]] = {}
    for record in records:
        runs.setdefault(record.setting, []).append(record)
    return {setting: _mean(of_it) for setting, of_it in runs.items()}


def _mean(runs: Sequence[SoundRecord]) -> SoundMean:
    accuracies = [run.accuracy for run in runs]
    spread = stdev(accuracies) if len(runs) > 1 else None
    epsilon, seconds = max(run.epsilon for run in runs), median(run.seconds for run in runs)
    return SoundMean(mean(accuracies), spread, len(runs), epsilon, seconds)
