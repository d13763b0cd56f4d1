"""How a guess is moved: L-BFGS as the papers count it, and Adam on the signs of the gradient."""

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
"""What a value that is not a number counts as, so that a line search turns back from it."""


class Moved(NamedTuple):
    """A guess after some iterations: the variables, the optimiser's state, the loss and the evaluations so far."""

    z: Tree
    state: Any
    loss: Array
    evaluations: Array


class Optimiser(Protocol):
    """A rule that moves variables downhill, one iteration at a time."""

    def begin(self, objective: Objective, z: Tree, iterations: int) -> Moved:
        """Measure the first guess."""

    def advance(self, objective: Objective, moved: Moved, iterations: int, stop: float) -> Moved:
        """Do one iteration of at most `iterations` in all, or less if the loss falls to `stop`."""

    def stalled(self, before: Array, after: Array) -> Array:
        """Say whether an iteration that took the loss from `before` to `after` shows that no more is to be had."""


def guarded(objective: Objective) -> Objective:
    """Make a loss that is not finite a large number with gradient zero: a step that goes there is taken back."""

    def safe(z: Tree) -> Array:
        loss = objective(z)
        return jnp.where(jnp.isfinite(loss), loss, LARGE)

    return safe


@dataclass(frozen=True, slots=True)
class Lbfgs:
    """L-BFGS with a zoom line search; one iteration is up to `inner` steps, as `torch.optim.LBFGS` counts.

    The reference attacks use no line search, and leave the picture when a step is too long; here a step that does not
    lower the loss, or gives no number, is shortened.
    """

    inner: int = 20
    memory: int = 100
    searches: int = 20

    def __post_init__(self) -> None:
        if min(self.inner, self.memory, self.searches) < 1:
            raise BadInput("inner, memory, searches: must be at least 1")

    def _rule(self) -> Any:
        search = optax.scale_by_zoom_linesearch(max_linesearch_steps=self.searches, initial_guess_strategy="one")
        return optax.lbfgs(memory_size=self.memory, linesearch=search)

    def begin(self, objective: Objective, z: Tree, iterations: int) -> Moved:
        """Evaluate once."""
        return Moved(z, self._rule().init(z), guarded(objective)(z), jnp.ones((), jnp.int32))

    def advance(self, objective: Objective, moved: Moved, iterations: int, stop: float) -> Moved:
        """Take up to `inner` steps; the loss never rises."""
        rule, safe = self._rule(), guarded(objective)
        evaluate = optax.value_and_grad_from_state(safe)

        def step(carry: tuple[Moved, Array, Array]) -> tuple[Moved, Array, Array]:
            (z, state, loss, evaluations), count, _ = carry
            value, slope = evaluate(z, state=state)
            slope = jax.tree.map(jnp.nan_to_num, slope)
            move, after = rule.update(slope, state, z, value=value, grad=slope, value_fn=safe)
            ahead = after[-1].value
            better = ahead < loss
            kept = jax.tree.map(lambda new, old: jnp.where(better, new, old), optax.apply_updates(z, move), z)
            # After a failed search the memory of curvature is stale: begin anew from the same place.
            state = jax.tree.map(lambda new, old: jnp.where(better, new, old), after, rule.init(z))
            used = after[-1].info.num_linesearch_steps
            failed = jnp.where(better, 0, carry[2] + 1)
            return Moved(kept, state, jnp.where(better, ahead, loss), evaluations + used), count + 1, failed

        def going(carry: tuple[Moved, Array, Array]) -> Array:
            # Two failures in a row, the second with no memory, mean that no direction leads down.
            return (carry[1] < self.inner) & (carry[0].loss > stop) & (carry[2] < 2)

        zero = jnp.zeros((), jnp.int32)
        return jax.lax.while_loop(going, step, (moved, zero, zero))[0]

    def stalled(self, before: Array, after: Array) -> Array:
        """Less than a hundred-thousandth gained in a whole iteration."""
        return after > before * (1 - 1e-5)


@dataclass(frozen=True, slots=True)
class SignedAdam:
    """Adam on the signs of the gradient; the rate falls to a tenth after 3/8, 5/8 and 7/8 of the way, as GradInv."""

    rate: float = 0.1

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise BadInput(f"rate = {self.rate}: must be above 0")

    def _rule(self, iterations: int) -> Any:
        falls = {int(iterations * part / 8): 0.1 for part in (3, 5, 7)}
        return optax.adam(optax.piecewise_constant_schedule(self.rate, falls))

    def begin(self, objective: Objective, z: Tree, iterations: int) -> Moved:
        """Evaluate once."""
        return Moved(z, self._rule(iterations).init(z), guarded(objective)(z), jnp.ones((), jnp.int32))

    def advance(self, objective: Objective, moved: Moved, iterations: int, stop: float) -> Moved:
        """Take one step; the loss is the one before it, which costs nothing more."""
        loss, slope = jax.value_and_grad(guarded(objective))(moved.z)
        signs = jax.tree.map(lambda g: jnp.sign(jnp.nan_to_num(g)), slope)
        move, state = self._rule(iterations).update(signs, moved.state, moved.z)
        return Moved(optax.apply_updates(moved.z, move), state, loss, moved.evaluations + 1)

    def stalled(self, before: Array, after: Array) -> Array:
        """Never: the loss of Adam goes up and down."""
        return jnp.zeros((), bool)


OPTIMISERS = (Lbfgs(), SignedAdam())
