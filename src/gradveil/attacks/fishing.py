"""A server that sends a last layer which lets the gradient of one class through: fishing (Wen et al.)."""

from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.attacks.attack import Attack, Reconstruction
from gradveil.attacks.exact import Exact
from gradveil.attacks.leak import Leak, last_layer
from gradveil.tree import Array, Tree

SILENCE = 30.0
"""How far below the others the logit of the class is kept, so that p_c < exp(-30) vanishes."""


@dataclass(frozen=True, slots=True)
class Fishing:
    """All columns of the last layer are zero but that of one class, which is -a: p_c is 0 for everybody.

    With h >= 0 before the last layer, dL/dh = -a (p_c - [y = c]) is a for the examples of class c and 0 for all others:
    the gradient of the batch is that of the examples of one class, which another attack takes apart. `target`: the
    class, by default the one most frequent in public examples.
    """

    name: str = "fishing"
    inner: Attack = field(default_factory=Exact)
    target: int | None = None
    restarts: int = 1

    def refuse(self, leak: Leak) -> None:
        """Refuse what the other attack refuses, and a model that does not end in a dense layer."""
        last_layer(leak.stage, leak.readings[0].gradient)
        self.inner.refuse(leak)

    def caught(self, leak: Leak) -> int:
        """Return the class whose examples are let through."""
        counts = np.bincount(leak.public.y, minlength=leak.stage.classes)
        return int(np.argmax(counts)) if self.target is None else self.target

    def planted(self, leak: Leak) -> Tree:
        """Return the weights to send instead of those of the leak; only its public part is used."""
        leaves, structure = jax.tree.flatten(leak.readings[0].params)
        weights, bias = last_layer(leak.stage, leak.readings[0].params)
        place = len(leaves) - (1 if bias is None else 2)
        if bias is not None:
            leaves[-1] = np.zeros_like(bias)
        column = np.zeros(np.shape(weights), np.float32)
        column[:, self.caught(leak)] = 1
        leaves[place] = column
        summed = jax.vmap(partial(leak.stage.model.apply, jax.tree.unflatten(structure, leaves)))
        sums = np.asarray(summed(jnp.asarray(leak.public.x[:200], jnp.float32)))[:, self.caught(leak)]
        leaves[place] = -SILENCE / max(float(np.quantile(sums, 0.05)), 1e-6) * column
        return jax.tree.unflatten(structure, [np.asarray(a, np.float32) for a in leaves])

    def prepared(self, leak: Leak, key: Array) -> "Fishing":
        """Return the attack with the other one prepared."""
        return replace(self, inner=self.inner.prepared(leak, key))

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Let the other attack work on what came through."""
        return self.inner(leak, key)
