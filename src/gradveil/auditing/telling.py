"""Telling two sets of scores apart: the test is chosen on a held-back part, and judged on the rest."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gradveil.auditing.bounds import Guesses, ceiling_of_guesses, epsilon_of_guesses, mu_of_guesses
from gradveil.auditing.probe import Host

Bound = Callable[[Guesses], float]


class Scores(NamedTuple):
    """One number for every observation with the unit and without it, [n] and [m]."""

    present: Host
    absent: Host

    def parts(self, share: float) -> tuple["Scores", "Scores"]:
        """Divide the observations: a first share of them, and the rest."""
        cuts = int(len(self.present) * share), int(len(self.absent) * share)
        return (
            Scores(self.present[: cuts[0]], self.absent[: cuts[1]]),
            Scores(self.present[cuts[0] :], self.absent[cuts[1] :]),
        )

    def guesses(self, threshold: float) -> Guesses:
        """Count how often a score is at least the threshold."""
        hits, alarms = (int(np.sum(one >= threshold)) for one in (self.present, self.absent))
        return Guesses(hits, len(self.present), alarms, len(self.absent))


class Telling(NamedTuple):
    """A lower bound, and the most that the observations that judged could have given."""

    bound: float
    ceiling: float


def told_apart(statistics: Sequence[Scores], delta: float, confidence: float, held_back: float = 0.25) -> Telling:
    """Return the lower bound on epsilon of the statistic, threshold and direction that do best on what is held back."""
    judged = _judged(statistics, lambda g: epsilon_of_guesses(g, delta, confidence), held_back)
    return Telling(
        epsilon_of_guesses(judged, delta, confidence),
        ceiling_of_guesses(judged.with_unit, judged.without, delta, confidence),
    )


def mu_told(statistics: Sequence[Scores], confidence: float, held_back: float = 0.25) -> float:
    """Return the lower bound on mu, chosen and judged in the same way."""
    return mu_of_guesses(_judged(statistics, lambda g: mu_of_guesses(g, confidence), held_back), confidence)


def _judged(statistics: Sequence[Scores], bound: Bound, held_back: float) -> Guesses:
    """Choose the best test on the held-back part; returns its guesses on the rest.

    A test is judged there by its own counts: at limits of as many as the rest has, rare guesses would win by luck.
    """
    best, chosen = -1.0, Guesses(0, 1, 1, 1)
    for scores in statistics:
        chosen_by, rest = scores.parts(held_back)
        for threshold in _thresholds(chosen_by):
            choosing, judging = chosen_by.guesses(threshold), rest.guesses(threshold)
            for one, other in ((choosing, judging), (choosing.reversed, judging.reversed)):
                if (value := bound(one)) > best:
                    best, chosen = value, other
    return chosen


def _thresholds(scores: Scores) -> Host:
    """Return candidates: quantiles of each side and between the sides, where they do not overlap at all."""
    levels = np.concatenate([np.linspace(0, 1, 41), [0.005, 0.01, 0.015, 0.985, 0.99, 0.995]])
    each = [np.quantile(side, levels) for side in (scores.present, scores.absent)]
    ends = [np.sort(side)[[0, -1]] for side in (scores.present, scores.absent)]
    between = [(ends[0][0] + ends[1][1]) / 2, (ends[1][0] + ends[0][1]) / 2]
    return np.unique(np.concatenate([*each, between]))
