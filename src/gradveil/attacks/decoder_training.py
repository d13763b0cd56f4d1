"""A small variational autoencoder of public examples, whose decoder is a prior for attacks; kept on disk by digest."""

import hashlib
import os
import tempfile
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from platformdirs import user_cache_dir

from gradveil.attacks.leak import Host, Public
from gradveil.errors import BadInput
from gradveil.models.networks import Mlp
from gradveil.tree import Array, Tree

HELD_OUT = 10
"""One public example in so many is not trained on; it tells how far the decoder is off."""


@dataclass(frozen=True, slots=True)
class DecoderTraining:
    """Sizes of the autoencoder: k latent values, units of the one hidden layer on either side; steps of Adam on lots.

    x = mean + D(u) - D(0) + noise of deviation `rest`, u ~ N(0, 1): the latent value 0 stands for the public mean.
    """

    latent: int = 24
    hidden: int = 256
    steps: int = 4000
    lot: int = 100
    rate: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("latent", "hidden", "steps", "lot"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} = {getattr(self, name)}: must be at least 1")
        if not self.rate > 0:
            raise BadInput(f"rate = {self.rate}: must be above 0")

    @property
    def network(self) -> Mlp:
        """The decoder, and turned round the encoder: one hidden layer, with biases."""
        return Mlp(hidden=(self.hidden,), bias=True)


class TrainedDecoder(NamedTuple):
    """layers: those of D, k -> p values. rest [p]: the deviation of public examples from their best decoding.

    middles, spreads [classes, k]: mean and deviation of the latent values of each class.
    """

    layers: Tree
    rest: Array
    middles: Array
    spreads: Array


def trained_decoder(training: DecoderTraining, public: Public) -> TrainedDecoder:
    """Return the decoder of public examples: of this process, of the cache on disk, or trained now."""
    known = public.memo.get(training)
    if known is None:
        known = public.memo[training] = _from_disk(training, public)
    decoder: TrainedDecoder = known
    return decoder


def decoded(training: DecoderTraining, layers: Tree, u: Array) -> Array:
    """Return D(u) - D(0) for latent values u [n, k], as rows [n, p]."""
    decode = partial(training.network.apply, layers)
    rows: Array = jax.vmap(decode)(u) - decode(jnp.zeros(u.shape[1]))
    return rows


def train(training: DecoderTraining, public: Public) -> TrainedDecoder:
    """Fit encoder and decoder to public examples by the evidence bound, from a fixed seed.

    The noise around a decoding has the deviation that fits each lot best: p / 2 log(mean squared error) + KL.
    """
    rows = jnp.asarray(public.x, jnp.float32).reshape(len(public.x), -1)
    held_out, seen = rows[::HELD_OUT], jnp.delete(rows, jnp.s_[::HELD_OUT], axis=0)
    mean, p = rows.mean(axis=0), rows.shape[1]
    keys = jax.random.split(jax.random.key(0), 3)
    decoder = training.network.init(keys[0], (training.latent,), p)
    encoder = training.network.init(keys[1], (p,), 2 * training.latent)
    encoder, decoder = _descend(training, (encoder, decoder), seen if len(seen) else rows, mean, keys[2])
    middle, _ = _encoded(training, encoder, held_out - mean)
    missed = held_out - mean - decoded(training, decoder, middle)
    rest = jnp.sqrt(jnp.mean(jnp.square(missed), axis=0) + 1e-4)
    return TrainedDecoder(decoder, rest, *_by_class(*_encoded(training, encoder, rows - mean), public.y))


def _by_class(middle: Array, log_spread: Array, y: Host) -> tuple[Array, Array]:
    """Return mean and deviation of the latent values of each class; a class without examples is like all of them."""
    moments = []
    for label in range(int(y.max()) + 1):
        own = y == label if np.any(y == label) else np.ones(len(y), bool)
        inside = jnp.mean(jnp.exp(2 * log_spread[own]), axis=0)
        moments.append((jnp.mean(middle[own], axis=0), jnp.sqrt(jnp.var(middle[own], axis=0) + inside)))
    middles, spreads = zip(*moments, strict=True)
    return jnp.stack(middles), jnp.stack(spreads)


def _encoded(training: DecoderTraining, encoder: Tree, rows: Array) -> tuple[Array, Array]:
    """Return mean and log-deviation of the latent values of rows."""
    both = jax.vmap(partial(training.network.apply, encoder))(rows)
    return both[:, : training.latent], both[:, training.latent :]


@partial(jax.jit, static_argnums=0)
def _descend(
    training: DecoderTraining, nets: tuple[Tree, Tree], rows: Array, mean: Array, key: Array
) -> tuple[Tree, Tree]:
    rule = optax.adam(optax.cosine_decay_schedule(training.rate, training.steps))

    def bound(both: tuple[Tree, Tree], lot: Array, noise: Array) -> Array:
        middle, log_spread = _encoded(training, both[0], lot - mean)
        guess = decoded(training, both[1], middle + jnp.exp(log_spread) * noise)
        error = jnp.mean(jnp.square(lot - mean - guess)) + 1e-6
        divergence = jnp.sum(jnp.square(middle) + jnp.exp(2 * log_spread) - 1 - 2 * log_spread, axis=1) / 2
        return lot.shape[1] / 2 * jnp.log(error) + jnp.mean(divergence)

    def step(carry: tuple[Tree, Tree], one: Array) -> tuple[tuple[Tree, Tree], None]:
        both, state = carry
        which, noisy = jax.random.split(one)
        lot = rows[jax.random.randint(which, (training.lot,), 0, len(rows))]
        slope = jax.grad(bound)(both, lot, jax.random.normal(noisy, (training.lot, training.latent)))
        move, state = rule.update(slope, state)
        return (optax.apply_updates(both, move), state), None

    (both, _), _ = jax.lax.scan(step, (nets, rule.init(nets)), jax.random.split(key, training.steps))
    done: tuple[Tree, Tree] = both
    return done


def decoders_folder() -> Path:
    """Return the folder of trained decoders: below GRADVEIL_CACHE, or below the user's cache folder."""
    return Path(os.environ.get("GRADVEIL_CACHE") or user_cache_dir("gradveil")).expanduser() / "decoders"


def _from_disk(training: DecoderTraining, public: Public) -> TrainedDecoder:
    """Return the decoder that is kept under the digest of what it was made from; train and keep it if none is."""
    path = decoders_folder() / f"{_digest(training, public)}.npz"
    try:
        with np.load(path, allow_pickle=False) as file:
            *layers, rest, middles, spreads = (jnp.asarray(file[name]) for name in sorted(file.files))
            return TrainedDecoder(tuple(layers), rest, middles, spreads)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        decoder = train(training, public)
        _keep(path, jax.tree.leaves(decoder))
        return decoder


def _digest(training: DecoderTraining, public: Public) -> str:
    """Return the SHA-256 of the sizes, the public examples and this module's source code."""
    running = hashlib.sha256(repr(training).encode() + Path(__file__).read_bytes())
    for part in (public.x, public.y):
        running.update(str((part.dtype.str, part.shape)).encode() + np.ascontiguousarray(part).tobytes())
    return running.hexdigest()


def _keep(path: Path, arrays: list[Array]) -> None:
    """Write a file under another name first, so that it is whole or not there; a cache that is read-only is left."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError:
        return
    with os.fdopen(handle, "wb") as file:
        np.savez(file, **{f"{i:03d}": np.asarray(a) for i, a in enumerate(arrays)})  # type: ignore[arg-type]
    os.replace(unfinished, path)
