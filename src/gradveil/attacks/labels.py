"""Label inference: the classes behind a gradient, from the last layer alone or from every coordinate.

The gradient of the last dense layer at class c is (p_c - [y = c]) h: with h >= 0 (after ReLU or sigmoid), the column of
the true class is the only negative one.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from gradveil.attacks.class_mix import class_scores, column_sums, every_coordinate, reading_of, unmix
from gradveil.attacks.leak import Host, Leak, last_layer
from gradveil.errors import BadInput


class Labels(Protocol):
    """A rule (leak, n) -> labels int [n] of n guesses, or None if the attack optimizes them too."""

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Infer the labels, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The labels are known, as some papers assume."""

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Return the labels of the leak; BadInput if it has none."""
        if leak.labels is None:
            raise BadInput("leak: holds no labels, and this attack needs them")
        return np.resize(leak.labels, n)


@dataclass(frozen=True, slots=True)
class Joint:
    """The label is another unknown of the attack, a softmax over classes, as DLG."""

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Return None: the attack optimizes the labels."""
        return None


@dataclass(frozen=True, slots=True)
class Sign:
    """The class whose column points against all others, as iDLG; exact for one example, else the n most opposed."""

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Sort classes by the sum of inner products of their column with the other columns."""
        weights, _ = last_layer(leak.stage, reading_of(leak).gradient)
        products = weights.T @ weights
        return _lowest(np.sum(products, axis=1) - np.diag(products), n)


@dataclass(frozen=True, slots=True)
class RowSums:
    """The class with the smallest sum of its column, as CPL; for a batch the n smallest ones."""

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Sort classes by the sum of their column."""
        weights, _ = last_layer(leak.stage, reading_of(leak).gradient)
        return _lowest(np.sum(weights, axis=0), n)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many examples of each class, from the last layer's column sums and bias, corrected by public examples.

    The column sums of a batch are the mix of those of its classes; the typical ones are measured on public examples, so
    that the contribution of absent classes is subtracted.
    """

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Solve for the mix and round it to n labels."""
        return listed(unmix(leak, partial(column_sums, leak.stage)), n)


@dataclass(frozen=True, slots=True)
class MatchedFilter:
    """As Counts, but over every coordinate and weighted by the noise, for heavy noise."""

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Take the likeliest class for one example, the likeliest mix for more."""
        if leak.stage.examples > 1:
            return listed(unmix(leak, every_coordinate), n)
        return _lowest(-class_scores(leak), n)


@dataclass(frozen=True, slots=True)
class Depending:
    """One rule where a single example is behind the gradient, another where there are several."""

    one: Labels
    several: Labels

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Choose by the number of examples."""
        return (self.one if leak.stage.examples == 1 else self.several)(leak, n)


LABELS = (Granted(), Joint(), Sign(), RowSums(), Counts(), MatchedFilter(), Depending(Sign(), Counts()))
INFERENCES = {"sign": Sign(), "row-sums": RowSums(), "corrected": Counts(), "matched-filter": MatchedFilter()}
"""The rules that infer labels, under the names of reports."""


def _lowest(scores: Host, n: int) -> Host:
    """Return the n classes of the smallest scores; beyond the number of classes, the smallest again."""
    order = np.argsort(scores, kind="stable")
    return np.resize(order, n)


def listed(shares: Host, n: int) -> Host:
    """Round shares to n labels by largest remainders, the largest share first."""
    exact = shares * n
    counts = np.floor(exact).astype(int)
    short = n - int(counts.sum())
    counts[np.argsort(-(exact - counts), kind="stable")[:short]] += 1
    order = np.argsort(-shares, kind="stable")
    return np.repeat(order, counts[order])
