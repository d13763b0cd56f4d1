"""The networks and batches whose local step is timed: the paper's, on made-up data of the right shape."""

from dataclasses import dataclass

import numpy as np

from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.models.networks import Cnn, Mlp, Model

SHAPES: dict[str, tuple[tuple[int, ...], int, Model]] = {
    "mnist": ((28, 28, 1), 10, Cnn()),
    "cifar10": ((32, 32, 3), 10, Cnn()),
    "lfw": ((32, 32, 3), 62, Cnn()),
    "adult": ((105,), 2, Mlp()),
}
"""Shape of an example, number of classes, network."""
BATCHES = (5, 32, 256)
HELD, EXAMPLES = 500, 2_000
"""Examples that a client holds, and examples that there are."""


@dataclass(frozen=True, slots=True)
class Case:
    """One local step: a dataset's shape and network, and the batch."""

    dataset: str = "mnist"
    batch: int = 5

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an example."""
        return SHAPES[self.dataset][0]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return SHAPES[self.dataset][1]

    @property
    def model(self) -> Model:
        """The network."""
        return SHAPES[self.dataset][2]

    def population(self, clients: int) -> Population:
        """Make up examples, and which of them each client holds."""
        random = np.random.default_rng(0)
        if len(self.shape) == 3:
            x = random.integers(0, 256, (EXAMPLES, *self.shape), np.uint8)
        else:
            x = random.standard_normal((EXAMPLES, *self.shape), np.float32)
        y = random.integers(0, self.classes, EXAMPLES, np.int32)
        return Population(x, y, random.integers(0, EXAMPLES, (clients, HELD), np.int32), copies=1)


CASES = tuple(Case(dataset, batch) for dataset in SHAPES for batch in BATCHES)


def chosen(datasets: str, batches: str) -> tuple[Case, ...]:
    """Return the cases of some datasets and batches, both as words with commas.

    >>> [(case.dataset, case.batch) for case in chosen("adult,mnist", "5")]
    [('adult', 5), ('mnist', 5)]
    """
    names, sizes = ([word.strip() for word in words.split(",")] for words in (datasets, batches))
    for name in names:
        if name not in SHAPES:
            raise BadInput(f"datasets = {name!r}: a step is timed with {', '.join(SHAPES)}")
    for size in sizes:
        if not size.isdigit() or not 1 <= int(size) <= HELD:
            raise BadInput(f"batches = {size!r}: must be a whole number from 1 to {HELD}")
    return tuple(Case(name, int(size)) for name in names for size in sizes)
