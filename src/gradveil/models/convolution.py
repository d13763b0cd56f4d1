"""Convolution and pooling in the forms that are fast under `vmap(grad)` on a CPU.

A convolution is patches times a matrix: XLA's own was several times slower on CPU once a gradient is taken for every
example. A pool is the maximum over a reshaped block: the gradient of strided slices pads each of them back to the whole
image, which took longer than all matrix products of the step.
"""

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
    blocks = image[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2, image.shape[2])
    return jnp.max(blocks, axis=(1, 3))
