"""Membership: was this record in the batch behind a reading? By the likelihood ratio of the mechanism that made it."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.attacks.attack import Reconstruction
from gradveil.attacks.law import all_of, law_of, log_ratio
from gradveil.attacks.leak import Host, Leak, Reading, Stage, apart
from gradveil.attacks.lineup import padded
from gradveil.attacks.score import Truth, prior_guess
from gradveil.errors import BadInput
from gradveil.tree import Array


@dataclass(frozen=True, slots=True)
class Membership:
    """Tells members from others; it rebuilds nothing, so its guess of an example is the one that reads no gradient.

    pairs: readings with a record, and as many without it, if they can be had with `effort` replayed examples.
    references: models trained on public records, beside which a trained model is read.
    """

    name: str = "membership"
    restarts: int = 1
    pairs: int = 4000
    effort: int = 300_000
    references: int = 4

    def refuse(self, leak: Leak) -> None:
        """Refuse a single gradient under noise that follows other examples, of which nothing is known."""
        if leak.stage.batch == 1 and any(bool(np.isnan(s).any()) for s in jax.tree.leaves(leak.readings[0].std)):
            raise BadInput(f"attack = {self.name}: the noise follows the rest of the batch too; read whole batches")

    def prepared(self, leak: Leak, key: Array) -> "Membership":
        """Return the attack itself: nothing is learned beforehand."""
        return self

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Return the public mean as the guess of every example."""
        guess = np.repeat(prior_guess(leak)[None], min(leak.stage.examples, 64), axis=0)
        one = np.ones(1, np.int32)
        return Reconstruction(guess[None], None, np.zeros(1), one, one)


class MembershipScores(NamedTuple):
    """Scores of readings with the record [n] and without it [n]; the higher, the likelier that it is there."""

    members: Host
    others: Host


def likelihood_ratios(leak: Leak, truth: Truth, place: int, candidates: Truth, key: Array) -> MembershipScores:
    """Try n records at one place of a batch: log p(reading | record there) - log p(reading | the place left empty).

    For every record one reading is drawn with it and one without it, by the code of training; the adversary is given
    all other examples. Several readings of a leak are drawn each, and their ratios added up.
    """
    batch = padded(truth, leak.stage.examples)
    keys = jax.random.split(key, len(candidates.y))
    given = jax.tree.map(jnp.asarray, (batch.x, batch.y, candidates.x, candidates.y))
    ratios = np.asarray(_ratios(leak.stage, apart(leak), jnp.asarray(place), *given, keys))
    return MembershipScores(ratios[:, 0], ratios[:, 1])


@partial(jax.jit, static_argnums=0)
def _ratios(
    stage: Stage, readings: Reading, place: Array, x: Array, y: Array, each_x: Array, each_y: Array, keys: Array
) -> Array:
    """Return log-likelihood ratios [n, 2], of a reading with the record and of one without it."""
    assert stage.draw is not None, "a stage of federated training knows its mechanism"
    empty, draw = y.at[place].set(-1), stage.draw

    def under(reading: Reading) -> Array:
        without = all_of(law_of(stage, reading, x, empty))
        public = reading.params, reading.clip_state, reading.sigmas

        def of(given: tuple[Array, Array, Array]) -> Array:
            record, label, key = given
            filled, labels = x.at[place].set(record), y.at[place].set(label)
            law = all_of(law_of(stage, reading, filled, labels))
            first, second = jax.random.split(key)
            seen = draw(*public, filled, labels, first), draw(*public, x, empty, second)
            return jnp.stack([log_ratio(one, law, without) for one in seen])

        ratios: Array = jax.lax.map(of, (each_x, each_y, keys))
        return ratios

    count = jax.tree.leaves(readings)[0].shape[0]
    total = sum(under(jax.tree.map(lambda a, i=i: a[i], readings)) for i in range(count))
    return jnp.asarray(total)
