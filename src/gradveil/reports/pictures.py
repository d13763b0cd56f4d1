"""The gallery of gradient leakage: one row a victim, one column a moment or a method, as the bytes of a PNG."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import ceil, floor

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from gradveil.data.dataset import Array
from gradveil.errors import BadInput

_HEIGHT = 96
_TEXT_SIZE = 13
_GAP, _CAPTION_GAP = 14, 2
_PAPER, _INK, _EDGE = "#ffffff", "#202020", "#b0b0b0"
_Cell = Image.Image


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """One row of the gallery: one victim image.

    `name` is written at the left, such as "client 12". `images` are the pictures of the columns, floats [h, w, c]
    with c = 1 (grey) or 3 (colour), of any range: they are shown clamped to [0, 1], and NaN as 0, which is black.
    `captions` are short texts, one under each picture, such as "RMSE 0.012". The built-in font knows only ASCII and
    draws a box for any other letter.
    """

    name: str
    images: tuple[Array, ...]
    captions: tuple[str, ...]

    def __post_init__(self) -> None:
        for image in self.images:
            if image.ndim != 3 or image.shape[2] not in (1, 3) or not image.size:
                raise BadInput(f"an image of {self.name!r} has shape {image.shape}, and it must be [h, w, 1 or 3]")
            # Pixels in 0..255 would be clamped to plain white without a word.
            if not np.issubdtype(image.dtype, np.floating):
                raise BadInput(f"an image of {self.name!r} is {image.dtype}, and it must hold floats in [0, 1]")


def gallery(title: str, columns: tuple[str, ...], strips: Sequence[Strip]) -> bytes:
    """Return a PNG: the title, the headings of the columns, then a row for each strip.

    Pictures are enlarged by whole factors to about 96 pixels high, without smoothing, so every true pixel is a
    square of one colour. No text is cut. The same input gives the same bytes.
    """
    _check(columns, strips)
    rows = [[_write(""), *map(_write, columns)]]
    rows += [[_write(strip.name), *map(_captioned, strip.images, strip.captions)] for strip in strips]
    page = ImageOps.expand(_stack(_write(title), _table(rows), 0.0, _GAP), border=_GAP, fill=_PAPER)
    file = BytesIO()
    page.save(file, "PNG")
    return file.getvalue()


def data_address(image: Array) -> str:
    """Return one picture, floats [h, w, 1 or 3], as a PNG in a data address; a page enlarges it."""
    file = BytesIO()
    _colour(image).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def frames(count: int, limit: int) -> tuple[int, ...]:
    """Return which of `count` snapshots to show: min(wanted, count) indices, dense early and sparse late.

    Guarantees: strictly increasing, from 0 to count - 1; the moments 1, 2, ..., count are spread geometrically as far
    as whole numbers allow.
    """
    if count < 1 or limit < 2:
        raise BadInput(f"{limit} frames of {count} snapshots: there must be at least 2 frames and 1 snapshot")
    if count == 1:
        return (0,)
    last = min(limit, count) - 1
    # The curve is convex from 0 to at least `last`: first it is below the line i, then above it and climbing by more
    # than 1 a step. So the larger of the two stays strictly increasing when rounded.
    return tuple(max(i, floor(count ** (i / last) - 0.5)) for i in range(last + 1))


def _check(columns: tuple[str, ...], strips: Sequence[Strip]) -> None:
    if not strips or not columns:
        raise BadInput(f"a gallery of {len(strips)} strips and {len(columns)} columns: it needs one of each at least")
    for strip in strips:
        if (len(strip.images), len(strip.captions)) != (len(columns), len(columns)):
            raise BadInput(
                f"strip {strip.name!r} has {len(strip.images)} images and {len(strip.captions)} captions, and it must "
                f"have one of each for each of the {len(columns)} columns"
            )


def _table(rows: Sequence[Sequence[_Cell]]) -> _Cell:
    """Put the cells on a grid whose columns and rows are as large as their largest cell."""
    widths = [max(cell.width for cell in column) for column in zip(*rows, strict=True)]
    heights = [max(cell.height for cell in row) for row in rows]
    sheet = _blank(sum(widths) + _GAP * (len(widths) - 1), sum(heights) + _GAP * (len(heights) - 1))
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            # Names start at the left, halfway down their row; pictures hang from the top, so that they align.
            across, down = (0.0, 0.5) if j == 0 else (0.5, 0.0)
            x = sum(widths[:j]) + _GAP * j + int(across * (widths[j] - cell.width))
            y = sum(heights[:i]) + _GAP * i + int(down * (heights[i] - cell.height))
            sheet.paste(cell, (x, y))
    return sheet


def _stack(upper: _Cell, lower: _Cell, across: float, gap: int) -> _Cell:
    """Put one cell above the other; `across` is 0 to align them at the left and 0.5 at their middles."""
    width = max(upper.width, lower.width)
    sheet = _blank(width, upper.height + gap + lower.height)
    sheet.paste(upper, (int(across * (width - upper.width)), 0))
    sheet.paste(lower, (int(across * (width - lower.width)), upper.height + gap))
    return sheet


def _captioned(image: Array, caption: str) -> _Cell:
    # The edge lies outside the pixels: without it a white picture would melt into the page.
    return _stack(ImageOps.expand(_enlarge(image), border=1, fill=_EDGE), _write(caption), 0.5, _CAPTION_GAP)


def _enlarge(image: Array) -> _Cell:
    """Return [h, w, 1 or 3] in colour, every pixel as a square of factor x factor pixels."""
    factor = max(1, round(_HEIGHT / image.shape[0]))
    return _colour(image).resize((image.shape[1] * factor, image.shape[0] * factor), Image.Resampling.NEAREST)


def _colour(image: Array) -> _Cell:
    """Return [h, w, 1 or 3] in colour, clamped to [0, 1], NaN as black."""
    pixels = np.rint(np.clip(np.nan_to_num(image, nan=0.0), 0.0, 1.0) * 255).astype(np.uint8)
    return Image.fromarray(np.repeat(pixels, 3 // pixels.shape[2], axis=2))


def _write(text: str) -> _Cell:
    """Return the text on paper exactly as wide as its ink, and at least one line high."""
    font = ImageFont.load_default(size=_TEXT_SIZE)
    measure = ImageDraw.Draw(_blank(1, 1)).textbbox
    # A letter such as j begins left of where it is put.
    left, _, right, bottom = measure((0, 0), text, font=font)
    line = measure((0, 0), "|", font=font)[3]
    sheet = _blank(ceil(right) - floor(left), ceil(max(bottom, line)))
    ImageDraw.Draw(sheet).text((-floor(left), 0), text, fill=_INK, font=font)
    return sheet


def _blank(width: int, height: int) -> _Cell:
    return Image.new("RGB", (width, height), _PAPER)
