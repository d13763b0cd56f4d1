"""New examples as the model of a run reads them: checked, in the stored form, and with the plan's features."""

from typing import Any

import numpy as np

from gradveil.errors import BadInput, quoted
from gradveil.federation.plan import Plan
from gradveil.fields import MOST_REAL
from gradveil.models.features.extract import extract
from gradveil.models.features.feature_cache import cached_constants
from gradveil.runs.store import EncodingRecord

Array = np.ndarray[Any, Any]
_MOST_PIXEL = 255


def array_of(x: Any, shape: tuple[int, ...]) -> Array:
    """Return examples [n, ...] of a shape as one array of numbers; BadInput if they are none."""
    try:
        examples = np.asarray(x)
    except ValueError:
        raise BadInput("x: examples of one shape are expected, and these have several") from None
    if examples.dtype.kind not in "fuib":
        raise BadInput(f"x = {quoted(x)}: numbers are expected")
    if examples.ndim == len(shape) and (*examples.shape, 1)[1:] == shape:  # pictures without an axis for one channel
        examples = examples[..., None]
    if not examples.ndim or examples.shape[1:] != shape:
        raise BadInput(f"x: examples of shape {shape} are expected, not {examples.shape[1:]}")
    return examples


def stored(encoding: EncodingRecord, examples: Array) -> Array:
    """Return examples in the form that the run's data was stored in: float32, or pixels as uint8.

    Of pixels, whole numbers are 0 to 255, and other numbers are 0 to 1, divided already.
    """
    if not (np.abs(examples.astype(np.float64)) <= MOST_REAL).all():
        raise BadInput(f"x: finite numbers of at most {MOST_REAL:g} are expected")
    if not encoding.pixels:
        return examples.astype(np.float32)
    whole = examples.dtype.kind in "ui"
    most = _MOST_PIXEL if whole else 1
    if len(examples) and not (examples.min() >= 0 and examples.max() <= most):
        span = f"{examples.min():g} to {examples.max():g}"
        raise BadInput(f"x: pixels are whole numbers from 0 to 255, or other numbers from 0 to 1; these are {span}")
    return examples.astype(np.uint8 if whole else np.float32)


def with_features(plan: Plan, examples: Array) -> Array:
    """Return what the plan's model reads: the examples themselves, or their features float32 [n, k]."""
    features = plan.features
    if features is None:
        return examples
    return extract(features, examples, constants=cached_constants(features, examples.shape[1:]))
