"""What the server makes of a cohort's mean update: a rate that falls, momentum, a mean of models.

All of it is computed from what was released, so it costs no epsilon. It moves the trained weights only, in rounds of
gradients only.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gradveil import tree
from gradveil.errors import BadInput
from gradveil.fields import settle
from gradveil.tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSide:
    """W(t+1) = W(t) + r_t v_t with v_t = momentum v_{t-1} + the mean update, r_t falling from 1 to 1 - decay.

    average: the fraction of the rounds of gradients, the last ones, whose models are averaged; the mean is what is
    evaluated and kept, while training goes on from the last model.
    """

    momentum: float = 0.0
    decay: float = 0.0
    average: float = 0.0

    def __post_init__(self) -> None:
        settle(self)
        for name in ("momentum", "decay", "average"):
            value, most = getattr(self, name), 1.0 if name != "momentum" else 0.9999
            if not 0 <= value <= most:
                raise BadInput(f"{name} = {value}: must lie between 0 and {most:g}")

    def init(self, weights: Tree) -> Tree:
        """Return the state before the first round of gradients: that of optax, and the mean with its count."""
        mean = jax.tree.map(jnp.zeros_like, weights) if self.average else ()
        return self._descent(1).init(weights), mean, jnp.zeros(())

    def step(self, weights: Tree, update: Tree, state: Tree, t: int, rounds: int) -> tuple[Tree, Tree]:
        """Return the weights and the state after gradient round t of so many."""
        descent, mean, count = state
        moves, descent = self._descent(rounds).update(jax.tree.map(jnp.negative, update), descent, weights)
        moved = optax.apply_updates(weights, moves)
        if self.average and t >= rounds - max(1, round(self.average * rounds)):
            count = count + 1
            mean = tree.add_scaled(mean, tree.subtract(moved, mean), 1 / count)
        return moved, (descent, mean, count)

    def model(self, weights: Tree, state: Tree) -> Tree:
        """Return the weights to evaluate and keep."""
        _, mean, count = state
        return mean if self.average and float(count) > 0 else weights

    def _descent(self, rounds: int) -> Any:
        rate = optax.linear_schedule(1.0, 1.0 - self.decay, max(rounds - 1, 1))
        return optax.sgd(rate, momentum=self.momentum or None)


def averaged(side: ServerSide | None, weights: Tree, state: Tree) -> Tree:
    """Return the weights to evaluate and keep: the last ones, unless a plan asks for a mean."""
    return weights if side is None or not state else side.model(weights, state)


def started(side: ServerSide | None, weights: Tree) -> Tree:
    """Return the server's state before the first round; empty without one."""
    return () if side is None else side.init(weights)
