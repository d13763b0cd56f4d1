"""Named random keys: every draw is a function of (seed, purpose, numbers), so order and engine never matter."""

import os
import zlib
from dataclasses import dataclass

import jax
import jax.numpy as jnp

Key = jax.Array

LARGEST_SEED = 2**32 - 1


def root(seed: int) -> Key:
    """Return the root key of a seed in 0..2^32-1."""
    return of_words(0, seed)


def entropy() -> Key:
    """Return a root key from 64 bits of the operating system's entropy; it is never stored."""
    return of_words(*(int.from_bytes(os.urandom(4), "little") for _ in range(2)))


def of_words(high: int, low: int) -> Key:
    """Return a key from its two 32-bit words."""
    key: Key = jax.random.wrap_key_data(jnp.array([high, low], jnp.uint32))
    return key


def named(key: Key, purpose: str, *numbers: int | jax.Array) -> Key:
    """Return the key of a purpose ("cohort", "noise", ...) and of numbers such as round and client."""
    derived = jax.random.fold_in(key, zlib.crc32(purpose.encode()))
    for number in numbers:
        derived = jax.random.fold_in(derived, number)
    return derived


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The two roots of a run.

    `public` decides what may be known: the initial weights. `private` decides what
    privacy rests on: noise, batches, cohorts. They are one and the same key when the noise source is seeded.
    """

    public: Key
    private: Key

    @staticmethod
    def of(seed: int, secret: bool) -> "Keys":
        """Return both roots from a seed, or the private one from entropy."""
        return Keys(root(seed), entropy() if secret else root(seed))
