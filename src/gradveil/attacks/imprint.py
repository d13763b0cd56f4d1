"""A server that sends weights of its own making, so that the bins of a layer take a batch apart (Robbing the Fed)."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np

from gradveil.attacks.attack import Reconstruction
from gradveil.attacks.dense_input import dense_input
from gradveil.attacks.exact_scale import level_columns
from gradveil.attacks.labels import Counts, Depending, Labels, Sign
from gradveil.attacks.leak import Host, Leak, merged, noise_std
from gradveil.errors import BadInput
from gradveil.tree import Array, Tree

GAIN = 1024.0
"""How much each layer behind the bins enlarges, so that the first layer has nearly all of a gradient's norm."""
FLAT = 1e-3
"""The largest logit, as far as public examples tell: all classes stay as likely as each other."""
EMPTY = 1e-4
"""The part of the fullest bin below which a bin counts as empty where nothing is noised."""
SURE = 3.0
"""How many deviations of the noise a bin must exceed."""


@dataclass(frozen=True, slots=True)
class Imprint:
    """Every unit of the first layer measures the same h.x and opens above a threshold of its own (Fowl et al.).

    Thresholds c_1 < c_2 < ... are quantiles of public examples. All units have the same weights behind them, hence the
    same d, and the gradients of two neighbors differ by the examples between their thresholds: x = (dW_k - dW_k+1) /
    (db_k - db_k+1) if there is one. Without a bias a one-hot feature carries the thresholds. The loss is the share of
    missing examples.

    Nearly all of a gradient's norm is in the first layer (`_amplifier`), so that one which is clipped to C, of an
    example that opens m units, has d = C / sqrt(m (1 + |x|^2)), without the 1 if there is no bias. The difference of
    two rows has noise sqrt(2) sigma C: from sigma = 1 / sqrt(2 m (1 + |x|^2)) on it outweighs a bin.
    """

    name: str = "imprint"
    labels: Labels = field(default_factory=lambda: Depending(Sign(), Counts()))
    restarts: int = 1

    def refuse(self, leak: Leak) -> None:
        """Refuse a model that cannot hold the bins, and updates of several steps, whose weights move in between."""
        layer = dense_input(leak.stage, leak.readings[0].gradient)
        if layer is None or (layer.bias is None and not level_columns(leak)):
            raise BadInput(
                f"attack = {self.name}: needs a model whose first layer is dense on its input, and a bias there or a "
                "one-hot feature to stand for it, such as --network mlp"
            )
        if leak.stage.steps > 1:
            raise BadInput(f"attack = {self.name}: needs one local step; the weights move after each, and the bins too")

    def planted(self, leak: Leak) -> Tree:
        """Return the weights to send instead of those of the leak; only its public part is used."""
        leaves, structure = jax.tree.flatten(leak.readings[0].params)
        layer = dense_input(leak.stage, leak.readings[0].params)
        assert layer is not None, "refused before"
        units = layer.weights.shape[1]
        direction = leak.public.variation[0][:, 0]
        measured = leak.public.x.reshape(len(leak.public.x), -1) @ direction
        thresholds = np.quantile(measured, (np.arange(units) + 0.5) / units)
        weights, first = np.repeat(direction[:, None], units, axis=1), 1
        if layer.bias is None:
            weights[level_columns(leak)[0]] -= thresholds
        else:
            leaves[1], first = -thresholds, 2
        leaves[0] = weights
        leaves[first:] = _amplifier([np.shape(a) for a in leaves[first:]])
        # No power of 2 changes which side of its threshold an example lies on.
        quiet = 2.0 ** -np.ceil(np.log2(np.ptp(measured) * GAIN ** sum(np.ndim(a) == 2 for a in leaves[first:]) / FLAT))
        leaves[:first] = [quiet * a for a in leaves[:first]]
        return jax.tree.unflatten(structure, [np.asarray(a, np.float32) for a in leaves])

    def prepared(self, leak: Leak, key: Array) -> "Imprint":
        """Return the attack itself: nothing is learned beforehand."""
        return self

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Read the bins; the fullest ones are the guesses, the public mean stands for those that are missing."""
        n, mean = leak.stage.examples, leak.public.x.mean(axis=0)
        bins = _bins(leak)
        fullest = np.argsort(-np.abs(bins.sizes), kind="stable")[:n]
        filled = np.abs(bins.sizes[fullest]) > bins.floor
        divisors = np.where(bins.sizes[fullest] == 0, 1, bins.sizes[fullest])
        x = np.repeat(mean[None].astype(np.float64), n, axis=0)
        guesses = (bins.sums[:, fullest] / divisors).T.reshape(-1, *leak.stage.shape)
        shaped = (filled | ~np.isfinite(divisors)).reshape(-1, *(1,) * mean.ndim)
        x[: len(fullest)] = np.where(shaped, guesses, x[: len(fullest)])
        one, missing = np.ones(1, np.int32), 1 - float(np.sum(filled)) / n
        return Reconstruction(x[None].astype(np.float32), self.labels(leak, n), np.array([missing]), one, one)


def _amplifier(shapes: list[tuple[int, ...]]) -> list[Host]:
    """Return the layers behind the bins: GAIN times the mean of their inputs, in the last one with alternating signs.

    Whatever its class, an example then has a d that is GAIN times larger than any gradient behind it. Biases are 0.
    """
    last = max(i for i, shape in enumerate(shapes) if len(shape) == 2)
    layers = [np.full(shape, GAIN / shape[0]) if len(shape) == 2 else np.zeros(shape) for shape in shapes]
    layers[last][:, 1::2] *= -1
    return layers


class _Bins(NamedTuple):
    """sums [inputs, units]: d times the examples of each bin; sizes [units]: d times their number; floor: of sizes."""

    sums: Host
    sizes: Host
    floor: float


def _bins(leak: Leak) -> _Bins:
    reading = merged(leak)
    layer = dense_input(leak.stage, reading.gradient)
    assert layer is not None, "refused before"

    def between(a: Host) -> Host:
        """Return what each unit has beyond the next, whose threshold is higher; the last has none above it."""
        return np.asarray(a - np.concatenate([a[..., 1:], np.zeros_like(a[..., :1])], axis=-1))

    noise = np.max(jax.tree.leaves(noise_std(reading))[0]) * np.sqrt(2)
    sums = between(layer.weights.astype(np.float64))
    if layer.bias is not None:
        sizes = between(layer.bias.astype(np.float64))
    else:
        levels = level_columns(leak)
        sizes = np.mean([sums[part].sum(axis=0) for part in levels], axis=0)
        noise *= np.sqrt(sum(part.stop - part.start for part in levels)) / len(levels)
    fullest = float(np.max(np.abs(sizes), initial=0.0))
    return _Bins(sums, sizes, max(SURE * float(noise), EMPTY * fullest))
