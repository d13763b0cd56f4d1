"""Models of other libraries as models of ours: flax, equinox, torch, or a pair of functions (init, apply).

Each becomes a value with `init` and `apply`. One example is given at a time: to modules of flax and torch as a batch of
one, since they are written for batches; pictures to modules of torch with the channels first. An output of one number
for two classes is a logit, so that its loss is the binary cross-entropy.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import jax
import jax.numpy as jnp

from gradveil import own_code
from gradveil.errors import BadInput, quoted
from gradveil.models.networks import Model, Shape
from gradveil.models.stateful import instance_parts, refuse_flax_state
from gradveil.tree import Array, Tree


def adapted(value: Any) -> Any:
    """Return a model of ours for what a user has; anything that is none of these is given back as it is."""
    library = own_code.library_of(value)
    if library == "flax":
        return FlaxModel(_instance(value) if isinstance(value, type) else value)
    if isinstance(value, tuple) and len(value) == 2 and all(map(callable, value)):
        return FunctionModel(*value)
    if library in ("equinox", "torch"):
        return FactoryModel(value) if isinstance(value, type) else InstanceModel.of(value)
    if callable(value) and not isinstance(value, type) and not hasattr(value, "init"):
        return FactoryModel(value)
    return value


def _instance(cls: type[Any]) -> Any:
    """Make a module of flax without arguments, as one that is named by its class is made."""
    try:
        return cls()
    except TypeError as error:
        raise BadInput(f"model = {cls.__name__}: give an instance, since it takes arguments ({error})") from error


def adapted_in(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a plan with a model of ours, where they name a model at all."""
    return settings | {"model": adapted(settings["model"])} if "model" in settings else settings


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A pair of functions: draw(key, shape, classes) -> params and compute(params, x) -> logits of one example."""

    draw: Callable[..., Any]
    compute: Callable[..., Any]

    @property
    def wrapped(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What the user gave."""
        return self.draw, self.compute

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Draw the initial parameters."""
        return _checked(self.compute, _called(self, self.draw, key, shape, classes), shape, classes, self)

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits [classes] of one example x."""
        return _logits(self.compute(params, x))


@dataclass(frozen=True, slots=True)
class FlaxModel:
    """A module of flax.linen, which is a value: its fields decide the network, a key draws its parameters."""

    module: Any

    @property
    def wrapped(self) -> Any:
        """What the user gave."""
        return self.module

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Draw the initial parameters; a module with state beside them is refused."""
        variables = _called(self, self.module.init, key, jnp.zeros((1, *shape)))
        refuse_flax_state(variables)
        return _checked(self._compute, variables["params"], shape, classes, self)

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits [classes] of one example x."""
        return _logits(self._compute(params, x))

    def _compute(self, params: Tree, x: Array) -> Array:
        computed: Array = self.module.apply({"params": params}, x[None])[0]
        return computed


@dataclass(frozen=True, slots=True)
class InstanceModel:
    """A module of equinox or torch with weights in it, with which training starts.

    Two are equal if they are the same object with the same weights.
    """

    module: Any = field(compare=False)
    weights: Tree = field(compare=False, repr=False)
    compute: Callable[[Tree, Array], Array] = field(compare=False, repr=False)
    identity: int
    object_sha256: str

    @staticmethod
    def of(module: Any) -> "InstanceModel":
        """Take the weights out of a module; one with state beside them is refused."""
        weights, compute, digest = instance_parts(module)
        return InstanceModel(module, weights, compute, id(module), digest)

    @property
    def wrapped(self) -> Any:
        """What the user gave."""
        return self.module

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Return the weights that the module came with."""
        return _checked(self.compute, self.weights, shape, classes, self)

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits [classes] of one example x."""
        return _logits(self.compute(params, x))


@dataclass(frozen=True, slots=True)
class FactoryModel:
    """A class of equinox or torch, or a function that makes a module: make(key=...), or make() if it takes no key."""

    make: Callable[..., Any]

    @property
    def wrapped(self) -> Any:
        """What the user gave."""
        return self.make

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Make a module by the key and return its weights."""
        weights, compute, _ = instance_parts(_called(self, _make, self.make, key))
        return _checked(compute, weights, shape, classes, self)

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits [classes] of one example x."""
        return _logits(_compute(self.make)(params, x))


@lru_cache(maxsize=16)
def _compute(make: Callable[..., Any]) -> Callable[[Tree, Array], Array]:
    """Return the function of a module that was made by any key: only its weights depend on it."""
    with jax.ensure_compile_time_eval():
        made = instance_parts(_make(make, jax.random.key(0)))
    return made[1]


def _make(make: Callable[..., Any], key: Array) -> Any:
    """Make a module: by the key, or with torch's own generator seeded by it, which is then as it was before."""
    if "key" in inspect.signature(make).parameters:
        return make(key=key)
    try:
        import torch
    except ImportError:
        return make()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed(key))
        return make()


def _seed(key: Array) -> int:
    try:
        return int(jax.random.bits(key))
    except jax.errors.ConcretizationTypeError:  # only shapes are asked for
        return 0


def _called(model: Model, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; whatever goes wrong in it is one sentence."""
    try:
        return function(*arguments)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"model = {quoted(model)}: cannot be used ({own_code.reason(error)})") from error


def _checked(compute: Callable[..., Any], params: Tree, shape: Shape, classes: int, model: Any) -> Tree:
    """Return the parameters if the network takes an example of the shape and answers with one logit a class."""
    example = jax.ShapeDtypeStruct(shape, jnp.float32)
    answer = _called(model, jax.eval_shape, compute, params, example)
    one = getattr(answer, "size", 0) == 1 and classes <= 2  # a logit for two classes, or a number to predict
    if not one and (getattr(answer, "shape", None) != (classes,) or classes == 1):
        actual = getattr(answer, "shape", type(answer).__name__)
        raise BadInput(
            f"model = {quoted(model)}: answers to an example of shape {shape} with shape {actual}, and must with one "
            f"logit for each of the {classes} classes"
        )
    return params


def _logits(answer: Any) -> Array:
    """Return the answer of a network as logits; one number z for two classes becomes (0, z)."""
    if getattr(answer, "size", 0) == 1:
        answer = jnp.concatenate([jnp.zeros(1), jnp.reshape(answer, 1)])
    return cast(Array, answer)
