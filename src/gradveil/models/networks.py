"""The paper's networks: the image CNN, the MLP for tables, and the network that its attacks are run against.

A model is any hashable value with `init` and `apply`; a parameter tree is a tuple of arrays, one a layer tensor.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp

from gradveil.errors import BadInput, quoted
from gradveil.fields import real, settle, whole
from gradveil.models.convolution import patches, pool
from gradveil.models.regression import SoftmaxRegression
from gradveil.tree import Array, Tree

Shape = tuple[int, ...]


class Model(Protocol):
    """A pair of pure functions, compared and hashed by value since compiled programs are cached by it.

    A model may promise `products`: `apply` uses every matrix among its parameters once, in their order, as the right
    side of `@`. It then trains faster under a method that clips each example.
    """

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Draw the initial parameters for examples of a shape and a number of classes."""

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits [classes] of one example x."""


def glorot(key: Array, shape: Shape) -> Array:
    """Draw U(-a, a) with a = sqrt(6 / (fan_in + fan_out)) for a matrix [fan_in, fan_out]."""
    limit = math.sqrt(6 / (shape[0] + shape[1]))
    return jax.random.uniform(key, shape, jnp.float32, -limit, limit)


def _glorot_conv(key: Array, side: int, channels: int, filters: int) -> Array:
    """Draw a kernel [side^2 channels, filters] with the fans of a convolution: side^2 times channels and filters."""
    limit = math.sqrt(6 / (side * side * (channels + filters)))
    return jax.random.uniform(key, (side * side * channels, filters), jnp.float32, -limit, limit)


def _image(shape: Shape, smallest: int, name: str) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[:2]) < smallest:
        raise BadInput(f"model = {name}: needs images of at least {smallest} x {smallest} pixels, not shape {shape}")
    return shape[0], shape[1], shape[2]


@dataclass(frozen=True, slots=True)
class Cnn:
    """conv 3x3 - ReLU - pool 2 - conv 3x3 - ReLU - pool 2 - dense, no biases, Glorot uniform.

    With the paper's 32 and 64 filters it has 288 + 18,432 + 16,000 = 34,720 parameters on MNIST.
    """

    products: ClassVar[bool] = True
    first: int = 32
    second: int = 64

    def __post_init__(self) -> None:
        settle(self)
        whole("first", self.first)
        whole("second", self.second)

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Draw the three tensors; kernels are matrices [9 channels, filters], as `patches` wants them."""
        height, width, channels = _image(shape, 10, "Cnn")
        keys = jax.random.split(key, 3)
        rows, columns = _pooled_twice(height), _pooled_twice(width)
        return (
            _glorot_conv(keys[0], 3, channels, self.first),
            _glorot_conv(keys[1], 3, self.first, self.second),
            glorot(keys[2], (rows * columns * self.second, classes)),
        )

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits of one image [height, width, channels].

        ReLU follows the pool: it commutes with a maximum, and a quarter of the values is left.
        """
        hidden = jax.nn.relu(pool(patches(_cropped(x), 3) @ params[0]))
        hidden = jax.nn.relu(pool(patches(hidden, 3) @ params[1]))
        logits: Array = hidden.reshape(-1) @ params[2]
        return logits


def _pooled_twice(side: int) -> int:
    """Return what is left of a side after two rounds of a 3x3 convolution and a pool."""
    return ((side - 2) // 2 - 2) // 2


def _cropped(image: Array) -> Array:
    """Crop the last rows and columns, which reach only what an odd pool drops: 28 x 28 -> 26 x 26."""
    height, width = (4 * _pooled_twice(side) + 6 for side in image.shape[:2])
    return image[:height, :width]


@dataclass(frozen=True, slots=True)
class Mlp:
    """dense - ReLU - dense - ReLU - dense, as the paper's networks for Adult and Cancer, Glorot uniform.

    The paper gives no sizes; 600-100 without biases is what its authors' code hints at. With `bias` each layer adds a
    vector, drawn as zeros; the analytic attack on a first layer needs it.
    """

    products: ClassVar[bool] = True
    hidden: tuple[int, ...] = (600, 100)
    bias: bool = False

    def __post_init__(self) -> None:
        settle(self)
        if not self.hidden or not 1 <= min(self.hidden) <= max(self.hidden) < 2**31:
            raise BadInput(
                f"hidden = {quoted(list(self.hidden))}: needs at least one hidden layer of at least 1 unit, "
                f"none of more than {2**31 - 1}"
            )

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Draw one matrix a layer, each followed by its bias if there are biases."""
        sizes = (math.prod(shape), *self.hidden, classes)
        keys = jax.random.split(key, len(sizes) - 1)
        layers = [(glorot(k, (i, o)), jnp.zeros(o)) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)]
        return tuple(tensor for layer in layers for tensor in (layer if self.bias else layer[:1]))

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits of one example of any shape."""
        stride = 2 if self.bias else 1
        hidden = x.reshape(-1)
        for i in range(0, len(params), stride):
            hidden = hidden @ params[i] + (params[i + 1] if self.bias else 0)
            hidden = jax.nn.relu(hidden) if i + stride < len(params) else hidden
        return hidden


@dataclass(frozen=True, slots=True)
class AttackNet:
    """The network of the paper's attack experiments: four convolutions 5x5 of 12 channels, sigmoid, then dense.

    Padding 2, strides 2, 2, 1, 1, biases; weights and biases are drawn from U(-0.5, 0.5). 17,038 parameters on MNIST.
    """

    products: ClassVar[bool] = True
    width: float = 0.5

    def __post_init__(self) -> None:
        settle(self)
        real("width", self.width)

    def init(self, key: Array, shape: Shape, classes: int) -> Tree:
        """Draw ten tensors: kernel and bias of each of the five layers."""
        height, width, channels = _image(shape, 8, "AttackNet")
        rows, columns = (-(-n // 4) for n in (height, width))
        inputs = [25 * channels, 25 * 12, 25 * 12, 25 * 12, 12 * rows * columns]
        sizes = [s for i, o in zip(inputs, [12, 12, 12, 12, classes], strict=True) for s in ((i, o), (o,))]
        keys = jax.random.split(key, len(sizes))
        return tuple(
            jax.random.uniform(k, s, jnp.float32, -self.width, self.width) for k, s in zip(keys, sizes, strict=True)
        )

    def apply(self, params: Tree, x: Array) -> Array:
        """Return the logits of one image [height, width, channels]."""
        hidden = x
        for i, stride in enumerate((2, 2, 1, 1)):
            padded = jnp.pad(hidden, ((2, 2), (2, 2), (0, 0)))
            hidden = jax.nn.sigmoid(patches(padded, 5, stride) @ params[2 * i] + params[2 * i + 1])
        logits: Array = hidden.reshape(-1) @ params[8] + params[9]
        return logits


MODELS = (Cnn, Mlp, AttackNet, SoftmaxRegression)
