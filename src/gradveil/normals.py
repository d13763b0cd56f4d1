"""Standard normals in float32 whose tails are not cut short.

A uniform of 23 bits, as JAX draws it, ends at 5.4 standard deviations, and a mechanism whose noise is cut off reveals a
unit whenever the noise would have had to go further. Here every draw uses all 32 bits of a word: one for
the sign and 31 for the tail probability p = (m + 1/2) / 2^32 of the magnitude. Where m < 256 (one draw in eight
million) a second word refines p, so that magnitudes reach 9 standard deviations.

The magnitude solves 2 p = erfc(x / sqrt(2)). With w = -ln(4 p (1 - p)) it is (1 - 2 p) f(w), and f is smooth: three
polynomials of degree 7 follow it to 6e-7, over w below 6.25, over sqrt(w) beyond, and over sqrt(w) of refined draws.
"""

import jax
import jax.numpy as jnp

from gradveil.keys import Key

Array = jax.Array

_NEAR = (2.33862173, 1.06136384, -0.0833652147, -0.0320389535, 0.0253943256, -0.00557074885, -0.00223024199, 0.00135258528)  # fmt: skip  # noqa: E501
_AFAR = (4.36127289, 1.06623777, 0.00427154803, -0.00223341317, 0.00111882349, -0.00058203557, 0.000236756061, -4.79856168e-05)  # fmt: skip  # noqa: E501
_RARE = (7.2159819, 2.0715162, -0.000814269619, -0.000648955136, 0.000338114971, -0.000121470153, 5.06261611e-05, -1.7743568e-05)  # fmt: skip  # noqa: E501
_EDGE = 6.25
_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""By how many bits the rounds of threefry 2x32 rotate (Salmon et al. 2011)."""
_REFINED = 256
"""Draws whose 31 bits are below this get a second word; there are 2^-23 of them."""


def normals(key: Key, count: int) -> Array:
    """Draw independent standard normals, float32 [count]."""
    words = _words(key, count)
    # Each branch makes the normals from the words; handing over normals that are ready would copy them.
    drawn: Array = jax.lax.cond(jnp.any(_high(words) < _REFINED), _refined, _plain, key, words)
    return drawn


def _words(key: Key, count: int) -> Array:
    """Return the random words of a key, uint32 [count]: those of `jax.random.bits`, but not partitionable.

    A block of threefry has two words; by default JAX folds them into one draw so that a draw can be split over
    devices. A client is never split, so both words are used. JAX keeps the 20 rounds in a loop, which compiles faster
    but writes every word to memory five times; here they are one expression, in half the time.
    """
    first, second = jax.random.key_data(key)
    schedule = (first, second, first ^ second ^ jnp.uint32(0x1BD11BDA))
    half = -(-count // 2)
    counters = jnp.arange(2 * half, dtype=jnp.uint32)
    left, right = counters[:half] + first, jnp.where(counters < count, counters, 0)[half:] + second
    for i in range(5):
        for turn in _TURNS[i % 2]:
            left = left + right
            right = left ^ (right << turn | right >> (32 - turn))
        left, right = left + schedule[(i + 1) % 3], right + schedule[(i + 2) % 3] + jnp.uint32(i + 1)
    return jnp.concatenate([left, right])[:count]


def _high(words: Array) -> Array:
    """Return the 31 bits of the magnitude; signed, since signed numbers turn into floats faster."""
    bits: Array = (words & jnp.uint32(0x7FFFFFFF)).astype(jnp.int32)
    return bits


def _plain(key: Key, words: Array) -> Array:
    return _signed(_magnitude((_high(words).astype(jnp.float32) + 0.5) * 2.0**-32), words)


def _refined(key: Key, words: Array) -> Array:
    """Make the normals, the far ends with 32 more bits each."""
    with jax.threefry_partitionable(False):
        low = jax.random.bits(jax.random.fold_in(key, 1), words.shape, jnp.uint32)
    high = _high(words)
    p = (high.astype(jnp.float32) + (low.astype(jnp.float32) + 0.5) * 2.0**-32) * 2.0**-32
    return jnp.where(high < _REFINED, _signed(_far_magnitude(p), words), _plain(key, words))


def _magnitude(p: Array) -> Array:
    """Return x with tail probability p, 2^-25 <= p <= 1/2."""
    w = -jnp.log(4.0 * p * (1.0 - p))
    near = w < _EDGE
    at = jnp.where(near, w * 0.32 - 1.0, jnp.sqrt(w) * (4 / 3) - 13 / 3)
    f = jnp.where(near, _NEAR[-1], _AFAR[-1])
    for near_coefficient, far_coefficient in zip(_NEAR[-2::-1], _AFAR[-2::-1], strict=True):
        f = f * at + jnp.where(near, near_coefficient, far_coefficient)
    return (1.0 - 2.0 * p) * f


def _far_magnitude(p: Array) -> Array:
    """Return x with tail probability p, 2^-65 <= p <= 2^-23."""
    at = (jnp.sqrt(-jnp.log(4.0 * jnp.minimum(p, 2.0**-23))) - 5.25) / 1.45
    f = jnp.full_like(p, _RARE[-1])
    for coefficient in _RARE[-2::-1]:
        f = f * at + coefficient
    return f


def _signed(magnitude: Array, words: Array) -> Array:
    return jnp.where(words >> 31 == 1, -magnitude, magnitude)
