"""A model whose examples carry a mark, by which some are canaries: records whose gradient is one known coordinate."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gradveil.models.networks import Model
from gradveil.tree import Array, Tree

ABSENT = -1.0
"""The mark of a record that is not there: its gradient is zero."""
STEEP = 1e4
"""The norm of a canary's gradient: above every clipping bound."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A model whose examples carry a mark behind their numbers: 0 a plain record, -1 nobody, i > 0 gradient canary i.

    Its parameters are those of the model, and one vector more with a coordinate for each gradient canary. Gradients do
    not depend on the values of that vector.
    """

    model: Model
    shape: tuple[int, ...]
    canaries: int

    def init(self, key: Array, shape: tuple[int, ...], classes: int) -> Tree:
        """Draw the parameters of the model; those of canaries are zero."""
        return (*self.model.init(key, self.shape, classes), jnp.zeros(self.canaries))

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits of the model, or those of a canary: at label 1 their loss has the gradient STEEP e_i."""
        plain, mark = self.model.apply(params[:-1], x[:-1].reshape(self.shape)), x[-1]
        own = params[-1] - jax.lax.stop_gradient(params[-1])
        moved = STEEP * own[jnp.maximum(mark.astype(int) - 1, 0)]
        canary = jnp.zeros_like(plain).at[0].set(50.0).at[1].set(-moved)
        nobody = jax.lax.stop_gradient(plain)
        return jnp.where(mark > 0, canary, jnp.where(mark < 0, nobody, plain))
