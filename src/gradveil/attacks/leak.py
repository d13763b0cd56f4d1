"""What the adversary has: readings, and the public facts of the training that they come from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from gradveil import tree
from gradveil.errors import BadInput
from gradveil.models.networks import Model, Shape
from gradveil.surface import Surface
from gradveil.tree import Array, Tree

Host = np.ndarray[Any, Any]
MOST = 2000
"""Public examples from which directions of variation are drawn; more change little and take long."""
Replay = Callable[[Tree, Tree, Array, Array], Tree]
"""(params, clip_state, x [L B, ...], y [L B]) -> the reading of these examples without noise.

A label below 0 marks padding.
"""


class Law(NamedTuple):
    """Coordinate i of a reading is value_i with probability share_i, else absent_i; on it lies noise N(0, std_i^2).

    Trees of one shape, but that std broadcasts to it, and is NaN where it follows examples that are not known. absent
    and share are None where every coordinate is shared. slots: the mean of what is read beside the gradient, with noise
    N(0, slots_std^2).
    """

    value: Tree
    absent: Tree | None
    share: Tree | None
    std: Tree
    slots: Tree = ()
    slots_std: Tree = ()


Mechanism = Callable[[Tree, Tree, Array, Array, Array], Law]
"""(params, clip_state, sigmas [L], x [L B, ...], y [L B]) -> the law of the reading of these examples."""


Drawing = Callable[[Tree, Tree, Array, Array, Array, Array], tuple[Tree, Tree]]
"""(params, clip_state, sigmas [L], x [L B, ...], y [L B], key) -> a reading of these examples with its noise drawn,
and the slots beside it."""


class Reading(NamedTuple):
    """One reading, in the units of a gradient: an update is divided by -lr L.

    params: the parameters it was computed at. clip_state: the public state of the clip in that round.
    std: the standard deviation of the noise on it, a tree that broadcasts to `gradient`; NaN where the noise follows
    the data: then each guess has its own, or it is estimated. sigmas [L]: the noise of the round in units of S.
    slots: what a clip wrote of the norms beside the gradient, with noise of its own; () for most clips.
    """

    params: Tree
    clip_state: Tree
    gradient: Tree
    std: Tree
    sigmas: Tree = ()
    slots: Tree = ()


@dataclass(frozen=True, eq=False)
class Public:
    """Public examples, none of them a client's: x [n, ...], y [n]; memo caches what is computed from them."""

    x: Host
    y: Host
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def variation(self) -> tuple[Host, Host, Host]:
        """How examples vary: directions [p, k], the deviation along each [k], and an even floor for all others.

        n examples determine no more than n / 4 directions well; the variance of the others is spread evenly: the floor.
        """
        rows = self.x[:MOST].reshape(min(len(self.x), MOST), -1)
        n, p = rows.shape
        _, sizes, directions = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        variances = sizes**2 / max(n - 1, 1)
        count = max(1, min(n // 4, p - 1, len(variances)))
        floor = np.sqrt(max(variances[count:].sum() / max(p - count, 1), 1e-4))
        return directions[:count].T, np.sqrt(np.maximum(variances[:count], floor**2)), np.asarray(floor)


@dataclass(frozen=True, slots=True)
class Column:
    """A public fact about a table: one feature and its values start..stop-1 in a row.

    A feature of one value is a number; one of several is one-hot.
    """

    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The public facts that decide an attack's program; compared and hashed by value.

    batch B and steps L: the reading is the mean of L gradients of B examples each. `sparse`: pruned coordinates are
    zeros. `mu` is the Gaussian parameter of one reading if one example is added or removed, None where there is none.
    `law`: the mechanism with its noise; None where all there is to know is the replay and the noise of the reading.
    `exact`: whether that law is exact. `own_scale`: whether the noise follows the data, so that each guess has its own.
    `draw`: the mechanism itself, for attacks that try what it would have shown of other examples.
    `soft`: the replay through a network with smooth maxima, whose sharpness stands before the parameters.
    """

    model: Model
    shape: Shape
    classes: int
    surface: Surface
    view: str
    batch: int
    steps: int
    replay: Replay
    sparse: bool = False
    mu: float | None = None
    columns: tuple[Column, ...] = ()
    law: Mechanism | None = None
    exact: bool = True
    own_scale: bool = False
    draw: Drawing | None = None
    soft: Replay | None = None

    @property
    def examples(self) -> int:
        """How many examples one reading is computed from."""
        return self.batch * self.steps


@dataclass(frozen=True, slots=True, eq=False)
class Leak:
    """All that an adversary has: the stage, one or more readings of the same examples, and public examples.

    `labels` [L B] are only for an adversary who is assumed to know them.
    """

    stage: Stage
    readings: tuple[Reading, ...]
    public: Public
    labels: Host | None = None

    def __post_init__(self) -> None:
        if not self.readings:
            raise BadInput("leak: holds no reading, so there is nothing to attack")

    @property
    def mu(self) -> float | None:
        """The Gaussian parameter of all readings together: sqrt(R) mu."""
        return None if self.stage.mu is None else self.stage.mu * float(np.sqrt(len(self.readings)))


def fused(leak: Leak) -> Reading:
    """Stack the readings on a leading axis [R', ...], after averaging those taken at the very same parameters.

    Their mean has the noise std / sqrt(R) and is sufficient. On the host: none of this is worth compiling.
    """
    groups: dict[int, list[Reading]] = {}
    for reading in leak.readings:
        groups.setdefault(id(reading.params), []).append(reading)
    means = [_mean(group) for group in groups.values()]
    stacked: Reading = jax.tree.map(lambda *leaves: np.stack(leaves), *means)
    return stacked


def merged(leak: Leak) -> Reading:
    """Return the first of the fused readings: all there are, where they were taken at the same parameters."""
    first: Reading = jax.tree.map(lambda a: a[0], fused(leak))
    return first


def _mean(group: list[Reading]) -> Reading:
    count = len(group)
    gradient = jax.tree.map(lambda *leaves: np.sum(leaves, axis=0) / np.float32(count), *(r.gradient for r in group))
    stds = [noise_std(r) for r in group]
    std = jax.tree.map(lambda *leaves: np.sqrt(np.sum(np.square(leaves), axis=0)) / np.float32(count), *stds)
    params, clip_state = jax.tree.map(np.asarray, (group[0].params, group[0].clip_state))
    sigmas = jax.tree.map(lambda *each: np.sqrt(np.sum(np.square(each), axis=0)) / count, *(r.sigmas for r in group))
    slots = jax.tree.map(lambda *leaves: np.sum(leaves, axis=0) / np.float32(count), *(r.slots for r in group))
    return Reading(params, clip_state, gradient, std, sigmas, slots)


def apart(leak: Leak) -> Reading:
    """Stack the readings on a leading axis, all of them where a mean would lose what they say, else as `fused`.

    The mean hides which coordinates were held back in which reading, and how large noise was whose scale is private.
    """
    if leak.stage.law is None or not (leak.stage.sparse or leak.stage.own_scale):
        return fused(leak)
    stacked: Reading = jax.tree.map(lambda *leaves: np.stack(leaves), *leak.readings)
    return stacked


def noise_std(reading: Reading) -> Tree:
    """Return the noise of a reading; where it is not known, the root mean square of the release.

    Over d coordinates that is right to about 1 / sqrt(2 d), as long as the noise outweighs the signal.
    """
    squares = [np.square(a, dtype=np.float64) for a in jax.tree.leaves(reading.gradient)]
    rms = np.sqrt(sum(a.sum() for a in squares) / tree.size(reading.gradient))
    return jax.tree.map(lambda s: np.where(np.isnan(s), rms, s).astype(np.float32), reading.std)


def last_layer(stage: Stage, gradient: Tree) -> tuple[Host, Host | None]:
    """Return the gradient of the last dense layer, [inputs, classes], and of its bias [classes] if it has one."""
    leaves = jax.tree.leaves(gradient)
    if leaves[-1].ndim == 1 and len(leaves) > 1 and leaves[-2].ndim == 2 and leaves[-2].shape[1] == stage.classes:
        return leaves[-2], leaves[-1]
    if leaves[-1].ndim == 2 and leaves[-1].shape[1] == stage.classes:
        return leaves[-1], None
    raise BadInput("leak: its model does not end in a dense layer, from which labels are inferred")
