"""A user's folder of images: one subfolder for each class, every image of one size."""

import warnings
from pathlib import Path

import numpy as np

from gradveil.data.records import Array
from gradveil.errors import BadInput

LONGEST_SIDE = 1024
_LARGEST = 2 * 2**30
_ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"})
_GRAY = frozenset({"1", "L"})


def read(folder: Path) -> tuple[Array, list[str], tuple[str, ...]]:
    """Decode FOLDER/CLASS/IMAGE: pixels uint8 [n, height, width, channels], the class of each, and notes.

    One channel if all images are gray, otherwise three. Hidden files are skipped, other files that are no images
    are counted in the notes.
    """
    files, skipped = _files(folder)
    pictures = [_decode(files[0], None)]
    height, width = pictures[0].shape[:2]
    if len(files) * height * width * 3 > _LARGEST:
        raise BadInput(
            f"{folder} holds {len(files)} images of {width} x {height} pixels, more than the {_LARGEST} bytes that "
            "can be read: make them smaller"
        )
    pictures += [_decode(file, (width, height)) for file in files[1:]]
    gray = all(picture.shape[2] == 1 for picture in pictures)
    pixels = np.stack([picture if gray or picture.shape[2] == 3 else picture.repeat(3, 2) for picture in pictures])
    notes = (f"{skipped} files in {folder.name} that are no images are left out",) if skipped else ()
    return pixels, [file.parent.name for file in files], notes


def _files(folder: Path) -> tuple[list[Path], int]:
    try:
        seen = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
        classes = [entry for entry in seen if entry.is_dir()]
        inside = [entry for kind in classes for entry in sorted(kind.iterdir()) if not entry.name.startswith(".")]
    except OSError as error:
        raise BadInput(f"{folder} cannot be read ({error.strerror})") from error
    if not seen:
        raise BadInput(f"{folder} is empty: it must hold one subfolder of images for each class")
    if not classes:
        raise BadInput(f"{folder} has no subfolders: it must hold one subfolder of images for each class")
    images = [entry for entry in inside if entry.suffix.lower() in _ENDINGS and entry.is_file()]
    if not images:
        raise BadInput(f"the subfolders of {folder} hold no images ({', '.join(sorted(_ENDINGS))})")
    return images, len(inside) - len(images) + len(seen) - len(classes)


def _decode(file: Path, size: tuple[int, int] | None) -> Array:
    """Return one image as uint8 [height, width, 1 or 3], its size checked before its pixels are unpacked."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(file) as picture:
                _check_size(file, picture.size, size)
                pixels = np.asarray(picture.convert("L" if picture.mode in _GRAY else "RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError, UnidentifiedImageError) as error:
        raise BadInput(f"{file} cannot be read as an image") from error
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _check_size(file: Path, actual: tuple[int, int], wanted: tuple[int, int] | None) -> None:
    if max(actual) > LONGEST_SIDE:
        raise BadInput(f"{file} has {actual[0]} x {actual[1]} pixels; a side may have at most {LONGEST_SIDE}")
    if wanted is not None and actual != wanted:
        raise BadInput(
            f"{file} has {actual[0]} x {actual[1]} pixels where the images before it have {wanted[0]} x {wanted[1]}: "
            "all must have one size"
        )
