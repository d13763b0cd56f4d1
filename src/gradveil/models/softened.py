"""A model whose maxima are smooth, so that its gradient moves smoothly with the example.

The gradient of a network with ReLUs and max-pools jumps wherever a unit turns on or off. An attack that matches
gradients cannot see such a jump coming; the smooth network tells on which side of it the example should be.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gradveil.models.networks import Model, Shape
from gradveil.tree import Array, Tree

_INNER = ("jaxpr", "call_jaxpr")


@dataclass(frozen=True, slots=True)
class Softened:
    """The model with max(a, b) as b + log(1 + e^(s (a - b))) / s, and a maximum over axes as its softmax mean.

    The sharpness s > 0 is the first of its parameters, and is not trained; as s grows it becomes the model itself.
    Any model that JAX can trace will do; maxima within its loops and branches stay as they are.
    """

    model: Model

    @property
    def frozen_leaves(self) -> int:
        """How many of the first parameters are not trained: the sharpness, and those that the model itself holds."""
        return 1 + int(getattr(self.model, "frozen_leaves", 0))

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Draw the parameters of the model, with sharpness 1 in front of them."""
        return (jnp.ones(()), *self.model.init(key, shape, classes))

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits [classes] of one example x."""
        sharpness, *given = params
        traced = jax.make_jaxpr(self.model.apply)(tuple(given), x)
        (logits,) = _evaluate(traced, sharpness, jax.tree.leaves((tuple(given), x)))
        return logits


def _evaluate(traced: Any, sharpness: Array, given: list[Array]) -> list[Array]:
    """Evaluate a traced program, with smooth maxima."""
    values: dict[Any, Array] = dict(zip(traced.jaxpr.constvars, traced.consts, strict=True))
    values.update(zip(traced.jaxpr.invars, given, strict=True))

    def value(atom: Any) -> Array:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in traced.jaxpr.eqns:
        results = _result(equation, sharpness, [value(atom) for atom in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in traced.jaxpr.outvars]


def _result(equation: Any, sharpness: Array, given: list[Array]) -> list[Array]:
    """Return the results of one equation, as a list."""
    match equation.primitive.name:
        case "max":
            a, b = given
            return [b + jax.nn.softplus(sharpness * (a - b)) / sharpness]
        case "reduce_max":
            (a,), axes = given, equation.params["axes"]
            return [jnp.sum(a * jax.nn.softmax(sharpness * a, axis=axes), axis=axes)]
    inner = _inner(equation)
    if inner is not None and _has_maxima(inner):
        return _evaluate(inner, sharpness, given)
    bound = equation.primitive.get_bind_params(equation.params)
    functions, settings = bound if isinstance(bound, tuple) else ((), bound)  # a pair before JAX 0.10
    results = equation.primitive.bind(*functions, *given, **settings)
    return list(results) if equation.primitive.multiple_results else [results]


def _inner(equation: Any) -> Any:
    """Return the program that an equation calls once with its own arguments, None if it calls none."""
    called = [equation.params[name] for name in _INNER if name in equation.params]
    return called[0] if called and equation.primitive.name not in ("scan", "while", "cond") else None


def _has_maxima(traced: Any) -> bool:
    def has(equation: Any) -> bool:
        inner = _inner(equation)
        return equation.primitive.name in ("max", "reduce_max") or (inner is not None and _has_maxima(inner))

    return any(has(equation) for equation in traced.jaxpr.eqns)
