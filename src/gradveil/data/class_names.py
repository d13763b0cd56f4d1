"""Classes of labels that are written as text: their names in order, and the number of each label."""

import math
from collections.abc import Sequence

import numpy as np

from gradveil.data.records import Array
from gradveil.data.user_csv import as_number
from gradveil.errors import BadInput

MINIMUM_RECORDS = 10


def number(labels: Sequence[str], name: str) -> tuple[Array, tuple[str, ...]]:
    """Number the classes in their natural order: y int32 [n] and the names.

    Refused: fewer than 10 records, one class only, or more classes than half the records (a quantity, not a class).
    """
    if len(labels) < MINIMUM_RECORDS:
        raise BadInput(f"{name} has {len(labels)} labelled records, and at least {MINIMUM_RECORDS} are needed")
    classes = tuple(sorted(set(labels), key=natural))
    if len(classes) == 1:
        raise BadInput(f"{name} has one class only ({classes[0]!r}), and at least two are needed")
    if len(classes) > len(labels) // 2:
        raise BadInput(
            f"{name} has {len(classes)} different labels in {len(labels)} records: the target must be a class, "
            "not a quantity or an identifier of each record (a schema, as `gradveil data schema` drafts it, predicts a "
            "number too)"
        )
    index_of = {label: i for i, label in enumerate(classes)}
    return np.array([index_of[label] for label in labels], dtype=np.int32), classes


def natural(label: str) -> tuple[bool, float, str]:
    """Return the key of an order in which numbers come first and by size, so that "10" follows "9"."""
    value = as_number(label)
    return math.isnan(value), 0.0 if math.isnan(value) else value, label
