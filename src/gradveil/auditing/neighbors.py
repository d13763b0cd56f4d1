"""Neighbors to compare: a client with and without one record, or with and without all of its records.

Worst cases are drawn first (every layer at its limit, one layer alone, among large or small or no other records), then
searched for: the record's norm in every layer and its direction towards the other records are changed step by step, and
what moves the release more is kept.
"""

from dataclasses import dataclass, replace

import numpy as np

from gradveil.auditing.absence import CLIENT, RECORD
from gradveil.auditing.probe import AuditStage, Host, Probe

LOUD = 1e4
"""Norm of a unit that every clip cuts, in multiples of C."""


@dataclass(frozen=True, slots=True)
class Neighbors:
    """A unit, and those around it, in multiples of C.

    norms: of the unit in every layer. along: cosine between the unit and the other records. others: norm of each.
    whole: whether the unit is all records of the client. flaw: a number that replaces one coordinate, such as NaN.
    """

    norms: tuple[float, ...]
    along: float = 0.0
    others: float = 0.0
    whole: bool = False
    flaw: float | None = None

    @property
    def absent(self) -> int:
        """Who is gone in the world without the unit."""
        return CLIENT if self.whole else RECORD


def worlds(stage: AuditStage, neighbors: Neighbors, bound: float, seed: int) -> tuple[Host, Host]:
    """Return the records of the client with and without the unit, [size, d] each; the unit is record 0, or all."""
    random = np.random.default_rng(seed)
    without, layers = stage.nobody(), _layers(stage)
    toward = random.normal(size=stage.size)
    unit = _unit(neighbors, layers, toward, random) * bound
    if neighbors.flaw is not None:
        unit[0] = neighbors.flaw
    if neighbors.whole:
        return np.broadcast_to(unit.astype(np.float32), without.shape), without
    if neighbors.others > 0 and len(without) > 1:
        spread = random.normal(size=(len(without) - 1, stage.size)) * 0.1 + toward
        without[1:] = neighbors.others * bound * spread / np.linalg.norm(spread, axis=1, keepdims=True)
    present = without.copy()
    present[0] = unit
    return present, without


def _layers(stage: AuditStage) -> Host:
    sizes = stage.plan.model.sizes if isinstance(stage.plan.model, Probe) else (stage.size,)
    return np.repeat(np.arange(len(sizes)), sizes)


def _unit(neighbors: Neighbors, layers: Host, toward: Host, random: np.random.Generator) -> Host:
    """Return a vector with the wanted norm in every layer, and the wanted cosine with the others in each."""
    free, unit = random.normal(size=len(layers)), np.zeros(len(layers))
    for m, norm in enumerate(neighbors.norms[: layers.max() + 1]):
        here = layers == m
        own, other = (part[here] / max(np.linalg.norm(part[here]), 1e-30) for part in (free, toward))
        mixed = neighbors.along * other + np.sqrt(max(0.0, 1 - neighbors.along**2)) * own
        unit[here] = norm * mixed / max(float(np.linalg.norm(mixed)), 1e-30)
    return unit


def first_guesses(layers: int, whole: bool) -> list[Neighbors]:
    """Return the worst cases that are known beforehand."""
    every = (LOUD,) * layers
    ones = [tuple(LOUD if m == at else 0.0 for m in range(layers)) for at in {0, layers - 1}]
    at_bound = (1 / np.sqrt(layers),) * layers
    if whole:
        return [Neighbors(norms, whole=True) for norms in (every, *ones, at_bound)]
    among = [Neighbors(every, others=o, along=a) for o, a in ((0.0, 0.0), (0.05, 0.0), (3.0, -1.0), (3.0, 1.0))]
    return [*among, *(Neighbors(norms, others=0.05) for norms in (*ones, at_bound, (0.3 / np.sqrt(layers),) * layers))]


def flawed(layers: int) -> list[Neighbors]:
    """Return units that no number can clip: not a number, infinite, and too large to be squared."""
    plain = Neighbors((1.0,) * layers)
    return [replace(plain, flaw=flaw) for flaw in (float("nan"), float("inf"), 3e38)]


def varied(best: Neighbors, random: np.random.Generator) -> Neighbors:
    """Change a pair a little: norms by a factor, the direction by a step, the others by a factor."""
    norms = tuple(float(n * np.exp(random.normal())) for n in best.norms)
    along = float(np.clip(best.along + 0.5 * random.normal(), -1, 1))
    others = 0.0 if best.whole else float(np.clip(best.others * np.exp(random.normal()), 0, 10))
    return replace(best, norms=norms, along=along, others=others)
