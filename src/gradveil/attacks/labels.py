"""Label inference: the classes behind a gradient, from the last layer alone or from every coordinate.

The gradient of the last dense layer at class c is (p_c - [y = c]) h: with h >= 0 (after ReLU or sigmoid), the column of
the true class is the only negative one.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

from gradveil import tree
from gradveil.attacks.leak import Host, Leak, Reading, Stage, last_layer, merged
from gradveil.errors import BadInput
from gradveil.models.gradients import per_example_gradients
from gradveil.tree import Array, Tree

PER_CLASS = 20
"""Public examples of a class from which its typical gradient is averaged."""


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
        return listed(unmix(leak, partial(_column_sums, leak.stage)), n)


@dataclass(frozen=True, slots=True)
class MatchedFilter:
    """As Counts, but over every coordinate and weighted by the noise, for heavy noise."""

    def __call__(self, leak: Leak, n: int) -> Host | None:
        """Take the likeliest class for one example, the likeliest mix for more."""
        if leak.stage.examples > 1:
            return listed(unmix(leak, _every_coordinate), n)
        return _lowest(-np.asarray(_class_scores(reading_of(leak), typical_gradients(leak))), n)


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


def likelihood(observed: Tree, guessed: Tree, std: Tree) -> Array:
    """Return log p(read | guessed) up to what does not depend on the guess; noise 0 counts as a small one."""
    d = tree.size(observed)
    floor = 1e-3 * jnp.sqrt(sum(jnp.sum(jnp.square(a)) for a in jax.tree.leaves(observed)) / d) + 1e-12
    terms = jax.tree.map(lambda y, g, s: jnp.sum(jnp.square((y - g) / jnp.maximum(s, floor))), observed, guessed, std)
    total: Array = sum(jax.tree.leaves(terms))  # type: ignore[assignment]
    return -total / 2


def beliefs(leak: Leak) -> Host:
    """Return the posterior share of each class given the readings, float [classes], adding up to 1.

    One example: p(c | reading) by the likelihood of each class's typical reading, with a uniform prior. Several: the
    mix of classes nearest to the reading.
    """
    if leak.stage.examples > 1:
        return unmix(leak, _every_coordinate)
    shares: Host = np.asarray(jax.nn.softmax(_class_scores(reading_of(leak), typical_gradients(leak))))
    return shares


@jax.jit
def _class_scores(reading: Reading, typical: Tree) -> Array:
    return jax.vmap(lambda g: likelihood(reading.gradient, g, reading.std))(typical)


def typical_gradients(leak: Leak) -> Tree:
    """Return the mean reading of each class over public examples, leaves [classes, ...]; zeros where there are none.

    The same for all leaks of one stage and the same parameters, so it is cached with the public examples.
    """
    x, y, reading = leak.public.x, leak.public.y, leak.readings[0]
    memo_key = (leak.stage, id(reading.params))
    if memo_key not in leak.public.memo:
        rows = np.concatenate([np.flatnonzero(y == c)[:PER_CLASS] for c in range(leak.stage.classes)])
        gradients = _class_gradients(leak.stage, reading.params, reading.clip_state, x[rows], y[rows])
        leak.public.memo[memo_key] = (reading.params, jax.tree.map(np.asarray, gradients))
    return leak.public.memo[memo_key][1]


@partial(jax.jit, static_argnums=0)
def _class_gradients(stage: Stage, params: Tree, clip_state: Tree, x: Array, y: Array) -> Tree:
    belongs = jax.nn.one_hot(y, stage.classes).T
    shares = belongs / jnp.maximum(jnp.sum(belongs, axis=1, keepdims=True), 1.0)
    if stage.steps > 1:  # the mechanism needs a sequence of batches, not one example
        lot = per_example_gradients(stage.model, params, x, y)
    else:
        lot = jax.lax.map(partial(_batch_of_copies, stage, params, clip_state), (x, y))
    return jax.tree.map(lambda a: jnp.tensordot(shares, a, 1), lot)


def _batch_of_copies(stage: Stage, params: Tree, clip_state: Tree, example: tuple[Array, Array]) -> Tree:
    """Replay a batch of B copies of one example: the typical reading of a class, with clips of updates."""
    x, y = (jnp.repeat(part[None], stage.batch, axis=0) for part in example)
    return stage.replay(params, clip_state, x, y)


def unmix(leak: Leak, features: "Features") -> Host:
    """Return each class's share of the examples: the non-negative mix of typical gradients nearest to the reading.

    A heavy extra row makes the shares add up to 1. Without it the mix is not determined, since the class gradients
    p - e_c of the last layer, weighted by p itself, add up to zero. Values that are not finite are ignored.
    """
    reading = reading_of(leak)
    observed = features(tree.lot_of_one(reading.gradient), reading)[0].astype(np.float64)
    typical = features(typical_gradients(leak), reading).T.astype(np.float64)
    heavy = 100 * np.sqrt(np.square(typical).sum(axis=0).mean()) + 1e-12
    system, wanted = np.vstack([typical, np.full(typical.shape[1], heavy)]), np.append(observed, heavy)
    mix, _ = nnls(system, wanted, maxiter=10_000)
    shares: Host = mix / mix.sum() if mix.sum() > 0 else np.full(len(mix), 1 / len(mix))
    return shares


def reading_of(leak: Leak) -> Reading:
    """Return the fused reading with values that are not finite replaced by zero."""
    reading = merged(leak)
    gradient, std = jax.tree.map(partial(np.nan_to_num, posinf=0.0, neginf=0.0), (reading.gradient, reading.std))
    return reading._replace(gradient=gradient, std=std)


class Features(Protocol):
    """A map from a lot of gradients to rows [n, features], given the reading that they are compared with."""

    def __call__(self, lot: Tree, reading: Reading) -> Host:
        """Return one row per unit."""


def _column_sums(stage: Stage, lot: Tree, reading: Reading) -> Host:
    def one(i: int) -> Host:
        weights, bias = last_layer(stage, jax.tree.map(lambda a: a[i], lot))
        sums = np.sum(weights, axis=0)
        return sums if bias is None else np.concatenate([sums, bias * len(weights)])

    return np.stack([one(i) for i in range(len(jax.tree.leaves(lot)[0]))])


def _every_coordinate(lot: Tree, reading: Reading) -> Host:
    """Lay all coordinates side by side, in units of its noise; where there is none, of a thousandth of the rest."""
    root = np.sqrt(np.mean([np.mean(np.square(a)) for a in jax.tree.leaves(reading.gradient)]))
    scaled = jax.tree.map(lambda a, s: a / np.maximum(s, 1e-3 * root + 1e-12), lot, reading.std)
    return np.concatenate([a.reshape(len(a), -1) for a in jax.tree.leaves(scaled)], axis=1)


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
