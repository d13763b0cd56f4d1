"""Convolution and pooling in the forms that are fast under `vmap(grad)` on a CPU.

A convolution is patches times a matrix: XLA's own was several times slower on CPU once a gradient is taken for every
example. A pool is the maximum over a reshaped block: the gradient of strided slices pads each of them back to the whole
image, which took longer than all matrix products of the step. Its derivative is written out: JAX's own is the same to
the bit, but writes two more arrays of the image's size.
"""

import jax
import jax.numpy as jnp

from gradveil.tree import Array


def patches(image: Array, side: int, stride: int = 1) -> Array:
    """Lay the side x side neighborhoods of an image side by side: [h, w, c] -> [h', w', side^2 c], no padding."""
    height, width, _ = image.shape
    rows, columns = (height - side) // stride + 1, (width - side) // stride + 1
    shifted = [
        image[i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
        for i in range(side)
        for j in range(side)
    ]
    return jnp.concatenate(shifted, axis=-1)


def pool(image: Array) -> Array:
    """Take the maximum of each 2 x 2 block, dropping an odd last row or column: [h, w, c] -> [h // 2, w // 2, c]."""
    rows, columns = image.shape[0] // 2, image.shape[1] // 2
    return _largest(image[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2, image.shape[2]))


@jax.custom_jvp
def _largest(blocks: Array) -> Array:
    """Take the maximum of each block, [h, 2, w, 2, c] -> [h, w, c]; equal maxima share the derivative."""
    return jnp.max(blocks, axis=(1, 3))


@_largest.defjvp
def _largest_jvp(at: tuple[Array], towards: tuple[Array]) -> tuple[Array, Array]:
    (blocks,), (direction,) = at, towards
    largest = _largest(blocks)
    # Counted place by place: a sum over axes would be a call of its own, which writes what it adds up.
    count = sum((blocks[:, i, :, j] == largest).astype(jnp.float32) for i in (0, 1) for j in (0, 1))
    here = blocks == largest[:, None, :, None]
    return largest, jnp.sum(jnp.where(here, direction, 0.0), axis=(1, 3)) / count
