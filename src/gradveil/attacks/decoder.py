"""A prior that has seen examples: guesses are what a decoder of public examples makes of a few latent values."""

from dataclasses import dataclass, field
from typing import ClassVar

import jax.numpy as jnp

from gradveil.attacks.decoder_training import DecoderTraining, TrainedDecoder, decoded
from gradveil.attacks.leak import Stage
from gradveil.attacks.public_stats import PublicStats
from gradveil.errors import BadInput
from gradveil.tree import Array


@dataclass(frozen=True, slots=True)
class Decoder:
    """x = mean + D(u) - D(0) + rest w with u = m + s v, of z = (v, w) with v [k] and w [p]; the cost is ||z||^2 / 2.

    D is trained on public examples alone (see `decoder_training`). m and s are mean and deviation of the latent values
    of examples whose classes have the posterior shares. w is what no decoding explains, `rest` its deviation at each
    value. Where the gradient says nothing, the guess stays near the public mean, for which u = 0 stands.
    """

    training: DecoderTraining = field(default_factory=DecoderTraining)
    believes: ClassVar[bool] = True
    cuts: ClassVar[bool] = False

    def refuse(self, stage: Stage) -> None:
        """Refuse examples that are not pictures: one-hot features are no sums of a decoding and noise."""
        if len(stage.shape) != 3:
            raise BadInput("prior = decoder: needs pictures; table rows have a prior of their own (attack table)")

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Start near 0, unlike for each guess: latent values from the first guess x, and no rest."""
        rows = x.reshape(x.shape[0], -1)
        k = self.training.latent
        start = jnp.resize(rows, (rows.shape[0], k)) if rows.shape[1] < k else rows[:, :k]
        return jnp.concatenate([0.3 * start, jnp.zeros_like(rows)], axis=1)

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Decode the latent values, and add the rest."""
        v, w = z[:, : self.training.latent], z[:, self.training.latent :]
        decoder: TrainedDecoder = stats.decoder
        shares = stats.beliefs[: len(decoder.middles)]
        m = shares @ decoder.middles
        s = jnp.sqrt(shares @ (jnp.square(decoder.middles) + jnp.square(decoder.spreads)) - jnp.square(m))
        rows = decoded(self.training, decoder.layers, m + s * v) + decoder.rest * w
        guess: Array = stats.mean + rows.reshape(z.shape[0], *stage.shape)
        return guess

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Return ||z||^2 / 2."""
        return jnp.sum(jnp.square(z)) / 2

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Let z be anywhere."""
        return z
