"""Softmax regression on features of bounded norm, after what preparation rounds learned of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gradveil.errors import BadInput
from gradveil.fields import settle
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment, Preparation
from gradveil.tree import Array, Tree


@dataclass(frozen=True, slots=True)
class SoftmaxRegression:
    """logits = W' (v, bias) with v = x / max(||x||, radius), then centered, then whitened, as far as asked for.

    The parameters are (center [k]?, whitening [k, k]?, W [k + 1, classes]); gradients move W alone, from zero, and the
    first `frozen_leaves` come from preparation. v has norm at most 1 at every stage, so the gradient of an example
    is (v, bias) (p - y)', whose norm is the product of the two. Of a number y the one output f is the prediction, and
    2 (f - y) stands in place of p - y.
    """

    mean: NoisedMean | None = None
    moment: NoisedSecondMoment | None = None
    radius: float = 0.0
    bias: float = 0.1

    def __post_init__(self) -> None:
        settle(self)
        for name in ("radius", "bias"):
            if not 0 <= getattr(self, name) < 1e6:
                raise BadInput(f"{name} = {getattr(self, name)}: must be at least 0 and below 1e6")

    @property
    def preparation(self) -> tuple[Preparation, ...]:
        """The preparation rounds, in their order."""
        return tuple(part for part in (self.mean, self.moment) if part is not None)

    @property
    def frozen_leaves(self) -> int:
        """How many of the parameters no gradient moves."""
        return len(self.preparation)

    @property
    def rest(self) -> "SoftmaxRegression":
        """Return the model on what `features` returns, whose parameters are (W,): the same logits and gradients."""
        return SoftmaxRegression(radius=1.0, bias=self.bias)

    def init(self, key: Array, shape: tuple[int, ...], classes: int) -> Tree:
        """Return what each preparation begins with, and W = 0; nothing is drawn."""
        size = math.prod(shape)
        return (*(part.init(size) for part in self.preparation), jnp.zeros((size + 1, classes)))

    def features(self, params: Tree, x: Array, stages: int | None = None) -> Array:
        """Return v of each example after the first `stages` preparations (all by default), [n, ...] -> [n, k]."""
        rows = x.reshape(x.shape[0], -1)
        norms = jnp.sqrt(jnp.sum(jnp.square(rows), axis=1, keepdims=True))
        v = rows / jnp.maximum(norms, max(self.radius, 1e-12))
        for part, value in list(zip(self.preparation, params[: self.frozen_leaves], strict=True))[:stages]:
            v = part.apply(value, v)
        return v

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits of one example of any shape."""
        logits: Array = self._with_bias(self.features(params, x[None]))[0] @ params[-1]
        return logits

    def _with_bias(self, v: Array) -> Array:
        return jnp.concatenate([v, jnp.full((v.shape[0], 1), self.bias)], axis=1)

    def vectors(self, params: Tree, x: Array, stage: Preparation) -> Array:
        """Return the vectors of a preparation, [n, d]."""
        return stage.vectors(self.features(params, x, self.preparation.index(stage)))

    def sums(
        self, params: Tree, x: Array, y: Array, stage: Preparation | None
    ) -> tuple[Array, Callable[[Array], Tree]]:
        """Return the norms [n, 1] of a round's units, and how to sum them with weights [n, 1].

        The units are the vectors of a preparation, or the gradients of W, and are not made. One of weight 0 is left
        out, also where it is not finite.
        """
        if stage is not None:
            v = self.features(params, x, self.preparation.index(stage))
            return stage.norms(v)[:, None], lambda w: stage.total(jnp.where(w > 0, v, 0.0), w[:, 0])
        v = self._with_bias(self.features(params, x))
        logits = v @ params[-1]
        if jnp.issubdtype(y.dtype, jnp.floating):
            miss = 2 * (logits - y[:, None])
        else:
            miss = jax.nn.softmax(logits, axis=1) - jax.nn.one_hot(y, logits.shape[1])
        norms = jnp.linalg.norm(v, axis=1, keepdims=True) * jnp.linalg.norm(miss, axis=1, keepdims=True)
        return norms, lambda w: (jnp.where(w > 0, v, 0.0).T @ (w * jnp.where(w > 0, miss, 0.0)),)
