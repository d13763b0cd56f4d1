"""What settings are tried on: synthetic data of the same shape, a public dataset, or the private records themselves.

A fifth of the training examples is held out, by a draw that does not look at them, and is what trials are scored on.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradveil.calibration.plan_noise import louder
from gradveil.data.dataset import Array, Dataset, Split
from gradveil.errors import BadInput
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.models.features.glyphs import glyphs

LEAST_SYNTHETIC, MOST_SYNTHETIC = 5_000, 10_000
SYNTHETIC, PRIVATE, PUBLIC = "synthetic", "private", "public:"
_PICTURE = 16
_APART = 3.0
"""Distance between the centers of two classes of a synthetic table, in standard deviations of its rows."""


def tuning_data(on: str, dataset: Dataset, seed: int, load: Callable[[str], Dataset]) -> Dataset:
    """Return the data to try settings on, its test split a fifth of what training examples there are.

    on: `synthetic`, `public:NAME` or `private`. load: finds a public dataset.
    """
    if on == SYNTHETIC:
        return held_out(synthetic_like(dataset, seed), seed)
    if on == PRIVATE:
        return held_out(dataset, seed)
    if not on.startswith(PUBLIC):
        raise BadInput(f"on = {on!r}: must be {SYNTHETIC}, {PUBLIC}NAME or {PRIVATE}")
    public = load(on.removeprefix(PUBLIC))
    if public.own:
        raise BadInput(f"on = {on!r}: is a file of your own; name a dataset of `gradveil data list`, or {PRIVATE}")
    if public.is_image != dataset.is_image:
        raise BadInput(f"on = {on!r}: settings found on pictures do not fit tables, nor those of tables pictures")
    return held_out(public, seed)


def held_out(dataset: Dataset, seed: int) -> Dataset:
    """Return the training split alone: four fifths to train on, one to test on, whatever the records are."""
    order = np.random.default_rng([seed, len(dataset.train)]).permutation(len(dataset.train))
    test, train = np.split(order, [max(1, len(order) // 5)])
    x, y = dataset.train.x, dataset.train.y
    return replace(dataset, train=Split(x[train], y[train]), validation=None, test=Split(x[test], y[test]))


def synthetic_like(dataset: Dataset, seed: int) -> Dataset:
    """Draw 5,000 to 10,000 examples of a dataset's shape, classes and size; nothing else of it is used.

    Tables: one Gaussian cloud a class. Pictures of 16 pixels a side or more: one procedural glyph a class, drawn by an
    unsteady hand; smaller ones are drawn as tables.
    """
    n, classes = min(max(len(dataset.train), LEAST_SYNTHETIC), MOST_SYNTHETIC), len(dataset.classes)
    copies = max(2, -(-n // classes))
    y = np.repeat(np.arange(classes, dtype=np.int32), copies)
    drawn = dataset.is_image and min(dataset.shape[:2]) >= _PICTURE
    x = _pictures(dataset.shape, classes, copies, seed) if drawn else _clouds(dataset.shape, y, classes, seed)
    split = Split(x, y)
    return replace(
        dataset, name=SYNTHETIC, train=split, validation=None, test=split, own=False, caveats=(), features=()
    )


def _pictures(shape: tuple[int, ...], classes: int, copies: int, seed: int) -> Array:
    """Draw glyphs as bytes [classes * copies, height, width, channels], the middle of a square where that is longer."""
    height, width, channels = shape
    side = max(height, width)
    drawn = glyphs(classes, copies, side, seed)
    down, right = (side - height) // 2, (side - width) // 2
    cut = drawn[:, down : down + height, right : right + width, None]
    return np.repeat(np.rint(255 * cut).astype(np.uint8), channels, axis=3)


def _clouds(shape: tuple[int, ...], y: Array, classes: int, seed: int) -> Array:
    """Draw rows around the centers of their classes, float32 [n, ...]."""
    random, size = np.random.default_rng([seed, classes]), math.prod(shape)
    centers = random.standard_normal((classes, size)) * _APART / math.sqrt(2 * size)
    rows = centers[y] + random.standard_normal((len(y), size))
    return rows.astype(np.float32).reshape(len(y), *shape)


def on_other_data(plan: Plan, data: Dataset) -> Plan:
    """Return a plan for other data than its own, with noise that weighs as much in a mean over all clients.

    That noise is sigma C / (sqrt(K) size) for K clients of so many examples, so sigma follows sqrt(K) size.
    """
    clients = min(plan.clients, len(data.train))
    size = max(1, min(plan.client_size, len(data.train) // clients))
    weight = math.sqrt(clients / plan.clients) * size / plan.client_size
    batch = max(1, min(size, round(plan.batch * size / plan.client_size)))
    cohort = clients if plan.cohort == plan.clients else min(clients, plan.cohort)
    fitted = {"clients": clients, "cohort": cohort, "client_size": size, "batch": batch, "minimum_cohort": None}
    own = {
        "dataset": data.name,
        "target": None,
        "schema": None,
        "client_column": None,
        "test": None,
        "validation": None,
        "client_sizes": None,
        "client_rates": None,
        "client_weights": None,
        "train_all": False,
        "noise_source": NoiseSource.SEEDED,
    }
    return replace(plan if plan.method.noise.silent else louder(plan, weight), **fitted, **own)  # type: ignore[arg-type]
