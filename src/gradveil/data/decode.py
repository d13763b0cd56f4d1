"""From the bytes of a published file to arrays, and back where a registry copy has to become that file."""

import gzip
import io
import json
import zipfile
from collections.abc import Iterable

import numpy as np

from gradveil.data.records import Array

_CIFAR_RECORD = 1 + 3 * 32 * 32


def idx(content: bytes) -> Array:
    """Decode an idx file of unsigned bytes, packed by gzip or not: uint8 with the shape its header states."""
    plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    axes = plain[3]
    shape = tuple(int(n) for n in np.frombuffer(plain, dtype=">i4", count=axes, offset=4))
    return np.frombuffer(plain, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def to_idx(array: Array) -> bytes:
    """Encode a uint8 array as a plain idx file; the inverse of `idx`."""
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, dtype=">i4").tobytes()
    return header + array.astype(np.uint8).tobytes()


def mnist_csv(text: Iterable[str]) -> tuple[Array, Array]:
    """Read lines `label,pixel,...` under one header line: images uint8 [n, 28, 28], labels uint8 [n]."""
    table = np.loadtxt(text, dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2)
    return table[:, 1:].reshape(-1, 28, 28), table[:, 0]


def cifar(content: bytes) -> tuple[Array, Array]:
    """Decode records of a label byte and three planes of 1024: images uint8 [n, 32, 32, 3], labels uint8 [n]."""
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, _CIFAR_RECORD)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0]


def to_cifar(rows: Array, labels: Array) -> bytes:
    """Encode pixels uint8 [n, 1024, 3], one image a row, and labels [n] as CIFAR's binary records."""
    planes = rows.transpose(0, 2, 1).reshape(len(rows), -1)
    return np.concatenate([labels.astype(np.uint8)[:, None], planes], axis=1).tobytes()


def png_rows(content: bytes) -> Array:
    """Decode a picture that holds one flattened image a row: uint8 [images, pixels, 3]."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture.convert("RGB"))


def json_labels(content: bytes) -> Array:
    """Decode a JSON list of class numbers: uint8 [n]."""
    return np.array(json.loads(content), dtype=np.uint8)


def lfw(content: bytes) -> tuple[Array, Array, tuple[str, ...]]:
    """Decode the faces in the order of scikit-learn: images uint8 [n, 32, 32, 3], labels int [n], names."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        order = archive["sklearn_order"]
        images, labels, names = archive["images"][order], archive["labels"][order], archive["names"]
    return images, labels, tuple(str(name) for name in names)


def to_lfw(images: Array, labels: Array, names: Iterable[str]) -> bytes:
    """Encode faces that already stand in the order of scikit-learn; the inverse of `lfw`."""
    buffer = io.BytesIO()
    order = np.arange(len(labels))
    np.savez_compressed(buffer, images=images, labels=labels, names=np.array(list(names)), sklearn_order=order)
    return buffer.getvalue()


def lfw_counts(content: bytes) -> str:
    """Return what the archive of faces holds, in the words of the catalog's `expected`."""
    try:
        images, labels, names = lfw(content)
    except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile):
        return "not a readable archive of faces"
    if images.dtype != np.uint8 or images.shape != (len(labels), 32, 32, 3):
        return f"images of type {images.dtype} and shape {images.shape}"
    people, counts = np.unique(labels, return_counts=True)
    if not np.array_equal(people, np.arange(len(names))):
        return f"labels that do not number its {len(names)} people"
    return f"{len(images)} images of {len(people)} people, {counts.min()} to {counts.max()} each"
