"""A user's arrays: examples x [n, ...] and labels y [n], from an .npz file of plain arrays or from memory."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from gradveil.data import free_memory
from gradveil.data.records import Array
from gradveil.errors import BadInput, quoted

LARGEST_VALUE = 1e6
"""The largest absolute value that is accepted: beyond it training diverges."""

_LARGEST = 4 * 2**30
_UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)


KERAS = ("x_train", "y_train", "x_test", "y_test")
"""The names in an .npz file that has its own test split, as those of Keras."""


def read(path: Path) -> tuple[Array, list[str], tuple[str, ...], Array | None]:
    """Read x [n, ...] (floats, or pixels 0 to 255) and y [n] (integers or text).

    Returns x as uint8 or float32 with a channel for images, the label of each, notes, and which examples are for
    testing, bool [n]: None where the file does not say, having x and y only.
    """
    train, test = arrays(path)
    if test is not None:
        return joined(train, test, path)
    examples = examples_of(train[0], path)
    return examples, labels_of(train[1], len(examples), path), notes_on(examples), None


def arrays(path: Path) -> tuple[tuple[Array, Array], tuple[Array, Array] | None]:
    """Return x and y as they stand in the file, and those of its own test split; pickles are never opened."""
    if not path.is_file():
        raise BadInput(f"{path} {'is no file' if path.exists() else 'does not exist'}")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _LARGEST:
            raise BadInput(f"{path} unpacks to {size} bytes, and at most {_LARGEST} can be read")
        free_memory.refuse_beyond(size, str(path), "use fewer records, uint8 or float32")
        with np.load(path, allow_pickle=False) as stored:
            names = list(stored)
            chosen = KERAS if set(KERAS) <= set(names) else ("x", "y")
            if not set(chosen) <= set(names):
                raise BadInput(
                    f"{path} must hold arrays named x and y, or {', '.join(KERAS)}, and holds "
                    f"{', '.join(names) or 'none'}"
                )
            contents = [stored[name] for name in chosen]
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(f"{path} cannot be read as an .npz file of plain arrays") from error
    return (contents[0], contents[1]), (contents[2], contents[3]) if chosen == KERAS else None


def joined(
    train: tuple[Array, Array], test: tuple[Array, Array], path: object
) -> tuple[Array, list[str], tuple[str, ...], Array]:
    """Return examples and labels of both splits in a row, notes, and which examples are for testing."""
    parts = alike(examples_of(train[0], path), examples_of(test[0], path), path)
    labels = [label for (_, y), x in zip((train, test), parts, strict=True) for label in labels_of(y, len(x), path)]
    tested = np.arange(len(labels)) >= len(parts[0])
    return np.concatenate(parts), labels, notes_on(parts[0]), tested


def alike(train: Array, test: Array, path: object) -> tuple[Array, Array]:
    """Return examples to train and to test on if they are of one shape and kind, and there are some of both."""
    parts = train, test
    if parts[0].shape[1:] != parts[1].shape[1:] or parts[0].dtype != parts[1].dtype:
        raise BadInput(
            f"x in {path} has examples {parts[0].shape[1:]} of {parts[0].dtype} to train on and {parts[1].shape[1:]} "
            f"of {parts[1].dtype} to test on: both must be alike"
        )
    if not len(train) or not len(test):
        raise BadInput(f"{path} has no examples to train on, or none to test on")
    return parts


def examples_of(x: Array, path: object) -> Array:
    """Return examples as uint8 or float32, images with a channel; refuse what cannot be one of them."""
    _check_shape(x, path)
    if x.dtype == np.uint8:
        ready = x
    elif np.issubdtype(x.dtype, np.integer):
        ready = _pixels(x, path)
    elif np.issubdtype(x.dtype, np.floating):
        ready = _floats(x, path)
    else:
        raise BadInput(f"x in {path} must be uint8 pixels or floating-point numbers, not {x.dtype}")
    return ready[..., None] if ready.ndim == 3 else ready


def _check_shape(x: Array, path: object) -> None:
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
        raise BadInput(f"x in {path} must have the shape [n, features] or [n, height, width, channels], not {x.shape}")
    if x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[3] not in (1, 3) and min(x.shape[2:]) > x.shape[1]:
        raise BadInput(
            f"x in {path} has the shape {x.shape}, with the channels before height and width: turn it into "
            "[n, height, width, channels] with x.transpose(0, 2, 3, 1)"
        )


def _pixels(x: Array, path: object) -> Array:
    """Return integers 0 to 255 of images as uint8; whether a table of integers means pixels cannot be told."""
    if x.ndim == 2:
        raise BadInput(
            f"x in {path} must be uint8 pixels or floating-point numbers, not {x.dtype}: turn it into one of them"
        )
    low, high = (int(x.min()), int(x.max())) if x.size else (0, 0)
    if low < 0 or high > 255:
        raise BadInput(f"x in {path} holds pixels from {low} to {high}, and they must be from 0 to 255")
    return x.astype(np.uint8)


def _floats(x: Array, path: object) -> Array:
    with np.errstate(over="ignore"):
        ready = x.astype(np.float32)
    _refuse_first(~np.isfinite(ready), x, path, "that is not a finite number", "")
    large = f"beyond {LARGEST_VALUE:g} in size"
    _refuse_first(np.abs(ready) > LARGEST_VALUE, x, path, large, ": x is used as it is, so scale it beforehand")
    return ready


def _refuse_first(wrong: Array, x: Array, path: object, rule: str, advice: str) -> None:
    if wrong.any():
        index = np.unravel_index(int(np.argmax(wrong)), x.shape)
        raise BadInput(f"x in {path} has a value {rule}, first in record {index[0]} ({x[index]:g}){advice}")


def labels_of(y: Array, records: int, path: object) -> list[str]:
    """Return labels as text, one for each record; a column of them, as Keras has, is one too."""
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.dtype.kind == "f":
        advice = "a number to predict needs target_range=(low, high) in gradveil.Dataset.of"
        raise BadInput(f"y in {path} must be integers or text, not {y.dtype}; {advice}")
    if y.dtype.kind not in "iubUTO":
        raise BadInput(f"y in {path} must be integers or text, not {y.dtype}")
    if y.shape != (records,):
        raise BadInput(f"y in {path} must have one label for each of the {records} records, not the shape {y.shape}")
    labels = y.tolist()
    if y.dtype.kind == "O":  # what pandas and polars have for text
        _refuse_other_than_text(labels, path)
    return [str(label) for label in labels]


def _refuse_other_than_text(labels: list[object], path: object) -> None:
    wrong = next((i for i, label in enumerate(labels) if not isinstance(label, str)), None)
    if wrong is not None:
        raise BadInput(f"y in {path} must be integers or text, and holds {quoted(labels[wrong])} in record {wrong}")


def notes_on(examples: Array) -> tuple[str, ...]:
    """Say how the numbers in examples are read."""
    if examples.dtype == np.uint8:
        return ("x is read as pixels, divided by 255",)
    return ("x is used as it is, without scaling",)
