"""What an optimizer of guesses is, and Adam on the signs of the gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax

from gradveil.errors import BadInput
from gradveil.tree import Array, Tree

Objective = Callable[[Tree], Array]
LARGE = 1e30
"""The loss that replaces NaN and infinity, so that a line search rejects the step."""


class Moved(NamedTuple):
    """A guess after some iterations: the variables, the optimizer's state, the loss and the evaluations so far."""

    z: Tree
    state: Any
    loss: Array
    evaluations: Array


class Optimizer(Protocol):
    """A rule that moves variables downhill, one iteration at a time."""

    def begin(self, objective: Objective, z: Tree, iterations: int) -> Moved:
        """Return the state of the first guess; nothing is evaluated yet, so its loss is infinite."""

    def advance(self, objective: Objective, moved: Moved, iterations: int, stop: float) -> Moved:
        """Do one iteration of at most `iterations` in all, or less if the loss falls to `stop`."""

    def stalled(self, before: Array, after: Array) -> Array:
        """Return whether to stop after an iteration that changed the loss from `before` to `after`."""

    def current_guess(self, moved: Moved) -> tuple[Tree, Array]:
        """Return the guess that counts so far, and its loss."""


class Best(NamedTuple):
    """Adam's state, beside the guess with the smallest loss so far; that guess and its loss."""

    adam: Any
    z: Tree
    loss: Array


def guarded(objective: Objective) -> Objective:
    """Return the objective with LARGE and gradient zero where it is not finite: such a step is rejected."""

    def safe(z: Tree) -> Array:
        loss = objective(z)
        return jnp.where(jnp.isfinite(loss), loss, LARGE)

    return safe


@dataclass(frozen=True, slots=True)
class SignedAdam:
    """Adam on the signs of the gradient; the rate falls to a tenth after 3/8, 5/8 and 7/8 of the way, as GradInv.

    best: the guess with the smallest loss so far is kept, not the last one.
    """

    rate: float = 0.1
    best: bool = False

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise BadInput(f"rate = {self.rate}: must be above 0")

    def _rule(self, iterations: int) -> Any:
        falls = {int(iterations * part / 8): 0.1 for part in (3, 5, 7)}
        return optax.adam(optax.piecewise_constant_schedule(self.rate, falls))

    def begin(self, objective: Objective, z: Tree, iterations: int) -> Moved:
        """Start the moments at zero."""
        state, none = self._rule(iterations).init(z), jnp.asarray(jnp.inf)
        return Moved(z, Best(state, z, none) if self.best else state, none, jnp.zeros((), jnp.int32))

    def advance(self, objective: Objective, moved: Moved, iterations: int, stop: float) -> Moved:
        """Take one step; the loss is that before the step, which needs no further evaluation."""
        loss, slope = jax.value_and_grad(guarded(objective))(moved.z)
        signs = jax.tree.map(lambda g: jnp.sign(jnp.nan_to_num(g)), slope)
        before = moved.state.adam if self.best else moved.state
        move, state = self._rule(iterations).update(signs, before, moved.z)
        if self.best:
            lower, kept = loss < moved.state.loss, moved.state
            z = jax.tree.map(lambda new, old: jnp.where(lower, new, old), moved.z, kept.z)
            state = Best(state, z, jnp.where(lower, loss, kept.loss))
        return Moved(optax.apply_updates(moved.z, move), state, loss, moved.evaluations + 1)

    def stalled(self, before: Array, after: Array) -> Array:
        """Return False: the loss of Adam goes up and down."""
        return jnp.zeros((), bool)

    def current_guess(self, moved: Moved) -> tuple[Tree, Array]:
        """Return the best guess and its loss; or the last, whose loss is that before its last step."""
        return (moved.state.z, moved.state.loss) if self.best else (moved.z, moved.loss)
