"""The built-in image sets: pixels uint8 [n, height, width, channels], divided as in the paper's table of datasets."""

from collections.abc import Iterable

import numpy as np

from gradveil.data import decode
from gradveil.data.dataset import Dataset
from gradveil.data.records import Array, Split
from gradveil.data.split import part, quarter

_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CLOTHES = (
    "t-shirt or top", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
_DIGITS = tuple("0123456789")


def digits() -> Dataset:
    """Return scikit-learn's 1797 digits as float32 [n, 8, 8, 1] in 0 to 1, 1347 to train on and 450 to test on."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    x = (raw.images / 16.0)[..., None]
    train, test = quarter(raw.target)
    return Dataset("digits", part(x, raw.target, train), None, part(x, raw.target, test), _DIGITS)


def mnist(files: Iterable[bytes], *, train_all: bool) -> Dataset:
    """Return the first 50000 training digits, the last 10000 as validation and the official 10000 as test.

    `train_all` trains on all 60000 and has no validation split.
    """
    images, labels, test_images, test_labels = (decode.idx(content) for content in files)
    cut = 60_000 if train_all else 50_000
    validation = None if train_all else _pixels(images[cut:, ..., None], labels[cut:])
    train = _pixels(images[:cut, ..., None], labels[:cut])
    return Dataset("mnist", train, validation, _pixels(test_images[..., None], test_labels), _DIGITS)


def fashion_mnist(files: Iterable[bytes]) -> Dataset:
    """Return the official 60000 training pictures of clothes and the official 10000 as test."""
    images, labels, test_images, test_labels = (decode.idx(content) for content in files)
    train, test = _pixels(images[..., None], labels), _pixels(test_images[..., None], test_labels)
    return Dataset("fashion-mnist", train, None, test, _CLOTHES)


def cifar10(files: Iterable[bytes]) -> Dataset:
    """Return the five training batches as 50000 images and the test batch as 10000."""
    *batches, test = [decode.cifar(content) for content in files]
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    return Dataset("cifar10", _pixels(images, labels), None, _pixels(*test), _CIFAR_CLASSES)


def lfw(files: Iterable[bytes]) -> Dataset:
    """Return the faces in the order of scikit-learn, the first 2267 to train on and the last 756 to test on.

    That order is already a shuffle (fixed by scikit-learn): every person has at least 11 photos to train on and
    is tested on, so the split without another shuffle, which the paper's numbers come from, is sound.
    """
    images, labels, names = decode.lfw(next(iter(files)))
    test = -(-len(labels) // 4)
    notes = ("photos of real people: for research only, not to be redistributed",)
    train = _pixels(images[:-test], labels[:-test])
    return Dataset("lfw", train, None, _pixels(images[-test:], labels[-test:]), names, notes=notes)


def _pixels(images: Array, labels: Array) -> Split:
    return Split(images, labels.astype(np.int32))
