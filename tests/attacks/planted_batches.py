"""Batches of which everything is known: rows, a network, and its gradients written out in NumPy."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.attacks.leak import Column, Leak, Public, Reading, Stage
from gradveil.attacks.metrics import assigned
from gradveil.models.gradients import per_example_gradients
from gradveil.models.networks import Mlp
from gradveil.surface import Surface

KINDS, NUMBERS, UNITS, CLASSES = 6, 18, 96, 3
INPUTS = KINDS + NUMBERS
LEVELS = (Column("kind", 0, KINDS), *(Column(f"number {i}", KINDS + i, KINDS + i + 1) for i in range(NUMBERS)))
PLAIN = tuple(Column(f"number {i}", i, i + 1) for i in range(INPUTS))


@dataclass(frozen=True)
class Mean:
    """The plainest mechanism, by the package's own gradients."""

    model: object
    batch: int

    def __call__(self, params, clip_state, x, y):
        lot = per_example_gradients(self.model, params, x, y)
        return jax.tree.map(lambda a: jnp.sum(a, axis=0) / self.batch, lot)


def rows(n, seed, levels=True):
    """Rows of one level and numbers; without levels all are numbers."""
    random = np.random.default_rng(seed)
    first = np.eye(KINDS)[random.integers(0, KINDS, n)] if levels else random.normal(size=(n, KINDS))
    return np.concatenate([first, random.normal(size=(n, NUMBERS))], axis=1).astype(np.float32)


def network(bias, units=UNITS):
    random = np.random.default_rng(7)
    layers = []
    for inputs, outputs in ((INPUTS, units), (units, CLASSES)):
        limit = np.sqrt(6 / (inputs + outputs))
        layers.append(random.uniform(-limit, limit, (inputs, outputs)))
        layers += [random.uniform(-0.1, 0.1, outputs)] if bias else []
    return tuple(a.astype(np.float32) for a in layers)


def by_hand(params, x, y):
    """The gradient of each example, from the textbook: leaves [B, ...]."""
    bias = len(params) == 4
    first, second = (params[0], params[2]) if bias else params
    before = x.astype(np.float64) @ first + (params[1] if bias else 0)
    hidden = np.maximum(before, 0)
    logits = hidden @ second + (params[3] if bias else 0)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error = shares - np.eye(CLASSES)[y]
    d = (error @ second.T) * (before > 0)
    weights = [x[:, :, None] * d[:, None, :], hidden[:, :, None] * error[:, None, :]]
    return [weights[0], d, weights[1], error] if bias else weights


@cache
def public(levels):
    return Public(rows(200, 99, levels), np.arange(200) % CLASSES)


def leak_of(params, gradient, batch, steps=1, levels=True, std=0.0):
    model = Mlp(hidden=(params[0].shape[1],), bias=len(params) == 4)
    stage = Stage(
        model=model, shape=(INPUTS,), classes=CLASSES, surface=Surface.EXAMPLE, view="released", batch=batch,
        steps=steps, replay=Mean(model, batch), columns=LEVELS if levels else PLAIN,
    )  # fmt: skip
    gradient = tuple(np.asarray(a, np.float32) for a in gradient)
    return Leak(stage, (Reading(params, (), gradient, tuple(np.float32(std) for _ in gradient)),), public(levels))


def planted(batch, seed=1, bias=False, levels=True, units=UNITS):
    params, x = network(bias, units), rows(batch, seed, levels)
    y = np.random.default_rng(seed).integers(0, CLASSES, batch)
    gradient = [a.sum(axis=0) / batch for a in by_hand(params, x, y)]
    return leak_of(params, gradient, batch, levels=levels), x, y


def errors(found, x):
    mine, theirs = assigned(found.x[-1], x)
    return np.abs(found.x[-1][mine] - x[theirs]).max(axis=1)


def noised(sigma, clip, batch, victims, params=None):
    """Fed-CDP by hand: every example's gradient is clipped to C as a whole, the sum gets N(0, sigma^2 C^2)."""
    random = np.random.default_rng(5)
    params = network(bias=False) if params is None else params
    for seed in range(victims):
        x, y = rows(batch, 50 + seed), random.integers(0, CLASSES, batch)
        lot = by_hand(params, x, y)
        lengths = np.sqrt(sum(np.square(a).reshape(batch, -1).sum(axis=1) for a in lot))
        factors = np.minimum(1, clip / lengths)
        sums = [np.tensordot(factors, a, 1) + sigma * clip * random.normal(size=a.shape[1:]) for a in lot]
        yield leak_of(params, [a / batch for a in sums], batch, std=sigma * clip / batch), x
