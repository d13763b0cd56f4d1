"""L-BFGS with a line search that survives NaN, written so that the objective is compiled once.

optax's and JAX's own searches evaluate the objective at three or four places of a program. For gradient matching, whose
objective holds a gradient itself, compiling those copies took longer than many an attack; here each turn of one loop
evaluates at one place, and then either accepts the point or shortens the step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gradveil.attacks.optimizers import LARGE, Moved, Objective, guarded
from gradveil.errors import BadInput
from gradveil.tree import Array, Tree

_SUFFICIENT, _SHORTER, _MAX_SHORTENINGS = 1e-4, 0.5, 12


class _Search(NamedTuple):
    """Where the search stands: the last accepted point, its loss and gradient, and the step being tried.

    moves, turns [history_size, d]: the last differences of points and gradients; pairs: how many there were in all.
    shortenings: of this step. failures: searches in a row without a lower loss. accepted: steps so far.
    """

    point: Array
    loss: Array
    slope: Array
    direction: Array
    length: Array
    moves: Array
    turns: Array
    pairs: Array
    shortenings: Array
    failures: Array
    accepted: Array
    evaluations: Array


@dataclass(frozen=True, slots=True)
class Lbfgs:
    """L-BFGS; one iteration is up to `inner` accepted steps, as `torch.optim.LBFGS` counts.

    The reference attacks use no line search, and may diverge when a step is too long. Here a step must lower the loss
    by 1e-4 of what its slope promises, or it is halved; a loss that is NaN counts as very large.
    """

    inner: int = 20
    history_size: int = 100
    least_gain: float = 1e-5

    def __post_init__(self) -> None:
        if min(self.inner, self.history_size) < 1:
            raise BadInput(f"inner = {self.inner}, history_size = {self.history_size}: must be at least 1")

    def begin(self, objective: Objective, z: Tree, iterations: int) -> Moved:
        """Return the state of the first guess; the first turn evaluates it: its step is zero and its loss infinite."""
        point = ravel_pytree(z)[0]
        none, zero, one = jnp.zeros((self.history_size, point.size)), jnp.zeros((), jnp.int32), jnp.asarray(1.0)
        nowhere = jnp.zeros_like(point)
        start = _Search(point, jnp.asarray(jnp.inf), nowhere, nowhere, one, none, none, *(zero,) * 5)
        return Moved(z, start, start.loss, zero)

    def advance(self, objective: Objective, moved: Moved, iterations: int, stop: float) -> Moved:
        """Take up to `inner` steps; the loss never rises."""
        flat, unravel = ravel_pytree(moved.z)
        evaluate = jax.value_and_grad(lambda point: guarded(objective)(unravel(point)))
        search: _Search = moved.state
        last = search.accepted + self.inner

        def going(s: _Search) -> Array:
            # Two failures in a row, the second along the plain slope, mean that no direction leads down.
            return (s.accepted < last) & (s.loss > stop) & (s.failures < 2)

        # A prior may have moved the point since; the slope there is then a little old, which only costs a step.
        after = jax.lax.while_loop(going, lambda s: _turn(evaluate, s), search._replace(point=flat))
        return Moved(unravel(after.point), after, after.loss, after.evaluations)

    def stalled(self, before: Array, after: Array) -> Array:
        """Whether an iteration lowered the loss by less than the fraction `least_gain`."""
        return after > before * (1 - self.least_gain)

    def current_guess(self, moved: Moved) -> tuple[Tree, Array]:
        """Return the last guess, which is the best: the loss never rises."""
        return moved.z, moved.loss


def _turn(evaluate: Callable[[Array], tuple[Array, Array]], s: _Search) -> _Search:
    """Evaluate the step being tried, then accept or shorten it."""
    trial = s.point + s.length * s.direction
    loss, slope = evaluate(trial)
    slope = jnp.nan_to_num(slope, posinf=0.0, neginf=0.0)
    promised = s.length * jnp.vdot(s.slope, s.direction)
    lower = (loss <= s.loss + _SUFFICIENT * promised) & (loss < LARGE) & ((loss < s.loss) | jnp.isinf(s.loss))
    s = s._replace(evaluations=s.evaluations + 1)
    after: _Search = jax.lax.cond(lower, _accept, _shorten, s, trial, loss, slope)
    return after


def _accept(s: _Search, trial: Array, loss: Array, slope: Array) -> _Search:
    """Move, store the curvature if it is positive, and choose the next direction."""
    move, turn = trial - s.point, slope - s.slope
    curved = jnp.vdot(move, turn) > 1e-10 * jnp.vdot(turn, turn)
    slot = s.pairs % s.moves.shape[0]
    moves = s.moves.at[slot].set(jnp.where(curved, move, s.moves[slot]))
    turns = s.turns.at[slot].set(jnp.where(curved, turn, s.turns[slot]))
    pairs = s.pairs + curved
    direction = _direction(slope, moves, turns, pairs)
    downhill = jnp.vdot(direction, slope) < 0
    direction = jnp.where(downhill, direction, -slope)
    cautious = jnp.minimum(1.0, 1.0 / jnp.maximum(jnp.sum(jnp.abs(slope)), 1e-30))
    length = jnp.where((pairs > 0) & downhill, 1.0, cautious)
    none, evaluated = jnp.zeros((), jnp.int32), jnp.isfinite(s.loss)
    return _Search(
        trial, loss, slope, direction, length, moves, turns, pairs, none, none, s.accepted + evaluated, s.evaluations
    )


def _shorten(s: _Search, trial: Array, loss: Array, slope: Array) -> _Search:
    """Halve the step; after many halvings drop all curvature and follow the plain slope."""
    exhausted = s.shortenings + 1 >= _MAX_SHORTENINGS
    cautious = jnp.minimum(1.0, 1.0 / jnp.maximum(jnp.sum(jnp.abs(s.slope)), 1e-30))
    return s._replace(
        direction=jnp.where(exhausted, -s.slope, s.direction),
        length=jnp.where(exhausted, cautious, s.length * _SHORTER),
        pairs=jnp.where(exhausted, 0, s.pairs),
        shortenings=jnp.where(exhausted, 0, s.shortenings + 1),
        failures=s.failures + exhausted + 2 * jnp.isinf(s.loss),
    )


def _direction(slope: Array, moves: Array, turns: Array, pairs: Array) -> Array:
    """Return -H slope by the two-loop recursion over the stored pairs, newest first and then oldest first."""
    size = moves.shape[0]
    stored = jnp.minimum(pairs, size)
    weight = 1.0 / jnp.maximum(jnp.sum(moves * turns, axis=1), 1e-30)

    def newest_first(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        q, alphas = carry
        j = (pairs - 1 - i) % size
        alpha = weight[j] * jnp.vdot(moves[j], q)
        return q - alpha * turns[j], alphas.at[j].set(alpha)

    q, alphas = jax.lax.fori_loop(0, stored, newest_first, (slope, jnp.zeros(size)))
    j = (pairs - 1) % size
    scale = 1.0 / jnp.maximum(weight[j] * jnp.vdot(turns[j], turns[j]), 1e-30)

    def oldest_first(i: Array, r: Array) -> Array:
        j = (pairs - stored + i) % size
        moved: Array = r + (alphas[j] - weight[j] * jnp.vdot(turns[j], r)) * moves[j]
        return moved

    uphill: Array = jax.lax.fori_loop(0, stored, oldest_first, jnp.where(pairs > 0, scale, 1.0) * q)
    return -uphill
