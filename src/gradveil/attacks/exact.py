"""The exact attack on a dense first layer: a batch is taken apart by the rank of its gradient and the zeros of ReLU."""

from dataclasses import dataclass, field

import jax
import numpy as np

from gradveil.attacks.attack import Reconstruction
from gradveil.attacks.dense_input import DenseInput, dense_input
from gradveil.attacks.exact_scale import Explained, Rows, confirmed, explained
from gradveil.attacks.labels import Counts, Depending, Labels, Sign
from gradveil.attacks.leak import Host, Leak, Reading, merged, noise_std
from gradveil.attacks.sparse_rows import CHUNK, draw, sparsest
from gradveil.errors import BadInput
from gradveil.tree import Array

CORRECTIONS = 3
"""How often rows of D are exchanged for those of the examples that they led to, before more are drawn."""
GAP = 100.0
"""A fall between two singular values that shows the rank, whatever the batch was expected to be."""


@dataclass(frozen=True, slots=True)
class Exact:
    """X and D from G = X^T D, the gradient of a dense first layer without its factors' scale or order.

    One example: G = x d^T has rank 1, and only its scale is left to find. A batch of B: see `sparse_rows`; it needs
    independent examples, fewer of them than inputs and units, up to 2^(B-1) log B tries, and noise far below the B-th
    singular value. An update of L local steps is a batch of L B. An example counts as found if its own gradient agrees
    with its row of D. The loss is the share of examples that were not found; the public mean stands for those.
    `labels` are only used if any is missing.
    """

    name: str = "exact"
    labels: Labels = field(default_factory=lambda: Depending(Sign(), Counts()))
    tries: int = 100_000
    restarts: int = 1

    def refuse(self, leak: Leak) -> None:
        """Refuse a model whose first layer is not dense: the gradient of no other is made of whole examples."""
        if dense_input(leak.stage, leak.readings[0].gradient) is None:
            raise BadInput(f"attack = {self.name}: needs a model whose first layer is dense on its input, such as Mlp")

    def prepared(self, leak: Leak, key: Array) -> "Exact":
        """Return the attack itself: nothing is learned beforehand."""
        return self

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Take the first reading apart; draw units by the key."""
        reading = merged(leak)
        layer = dense_input(leak.stage, reading.gradient)
        assert layer is not None, "refused before"
        mean = leak.public.x.mean(axis=0)
        if not np.isfinite(layer.weights).all():
            return _result(np.full((1, *leak.stage.shape), np.nan), self.labels(leak, 1), np.nan, 1)
        best, chunks = self._search(leak, reading, layer, np.random.default_rng(np.asarray(jax.random.key_data(key))))
        if best is None:
            n = leak.stage.examples
            return _result(np.repeat(mean[None], n, axis=0), self.labels(leak, n), 1.0, chunks)
        x = best.rows.x.reshape(-1, *leak.stage.shape)
        x = np.where(best.correct.reshape(-1, *(1,) * mean.ndim), x, mean)
        labels = best.labels if best.correct.all() else self.labels(leak, len(x))
        return _result(x, labels, 1 - float(best.correct.mean()), chunks)

    def _search(
        self, leak: Leak, reading: Reading, layer: DenseInput, random: np.random.Generator
    ) -> tuple[Explained | None, int]:
        """Draw until every example is explained or the tries are spent; return the best, and the chunks drawn."""
        split = _split(layer.weights.astype(np.float64), leak.stage.examples, _known_noise(reading))
        if split is None:
            return None, 0
        left, basis, noise = split
        pool = certain = np.zeros((0, len(basis)))
        best, chunks = None, 0
        while chunks * CHUNK < self.tries and (best is None or not best.correct.all()):
            chunks += 1
            drawn = np.concatenate([pool, draw(basis, noise, random)])
            for _ in range(CORRECTIONS):
                pool = sparsest(basis, drawn, noise, certain)
                if len(pool) < len(basis):
                    break
                rows = Rows(np.linalg.solve(pool.T, left.T), pool @ basis)
                now = explained(leak, reading, layer, rows)
                if best is None or now.correct.sum() >= best.correct.sum():
                    best = now
                if now.settled:
                    break
                certain = confirmed(leak, reading, basis, now.rows.x)
        return best, chunks


def _split(weights: Host, examples: int, noise: float) -> tuple[Host, Host, float] | None:
    """Write G as left [inputs, B] times basis [B, units], over active units; give the noise on a value of the basis.

    None if no rank shows: too many examples, or the least of them is below the noise.
    """
    left, sizes, right = np.linalg.svd(weights, full_matrices=False)
    sizes = np.maximum(sizes, 1e-9 * max(sizes[0], 1e-30))
    falls = sizes[:-1] / sizes[1:]
    rank = int(np.argmax(falls)) + 1 if len(falls) and falls.max() > GAP else examples
    if (rank >= min(weights.shape) and rank > 1) or sizes[0] <= 1e-30:
        return None
    inputs, units = weights.shape
    if sizes[rank - 1] <= noise * (np.sqrt(inputs) + np.sqrt(units)):
        return None
    rest = np.sqrt(np.sum(np.square(sizes[rank:])) / max((inputs - rank) * (units - rank), 1))
    return left[:, :rank], sizes[:rank, None] * right[:rank], max(noise, float(rest))


def _known_noise(reading: Reading) -> float:
    return float(np.mean(jax.tree.leaves(noise_std(reading))[0]))


def _result(x: Host, labels: Host | None, missing: float, chunks: int) -> Reconstruction:
    one = np.ones(1, np.int32)
    return Reconstruction(x[None].astype(np.float32), labels, np.array([missing]), one, CHUNK * chunks * one)
