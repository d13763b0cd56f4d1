"""Pictures in the terminal: two pixels a character cell, as a half block in two colors, or as shades without colors."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

Array = np.ndarray[Any, Any]
HALF_BLOCK = "\N{UPPER HALF BLOCK}"
SHADES = " \N{LIGHT SHADE}\N{MEDIUM SHADE}\N{DARK SHADE}\N{FULL BLOCK}"
GAP = 6
LEAST_WIDTH = 16


def side_by_side(pictures: list[Array], captions: list[list[str]], screen: Console) -> list[Text] | None:
    """Return lines of text that show pictures [h, w, c] next to each other, below lines of a caption for each.

    None where that cannot be shown: no terminal, one that cannot print blocks, or too narrow a one.
    """
    scale = max(1, -(-LEAST_WIDTH // pictures[0].shape[1]))
    wide = pictures[0].shape[1] * scale + GAP
    room = len(pictures) * wide <= screen.width and max(len(text) for line in captions for text in line) < wide
    if not screen.is_terminal or not room or not _prints(screen, HALF_BLOCK + SHADES):
        return None
    colors = screen.color_system in ("256", "truecolor") and not screen.no_color
    drawn = [(half_blocks if colors else shades)(enlarged(picture, scale)) for picture in pictures]
    gap = Text(" " * GAP)
    heads = [Text("".join(text.ljust(wide) for text in line).rstrip()) for line in captions]
    return [*heads, *(gap.join(parts) for parts in zip(*drawn, strict=True))]


def _prints(screen: Console, text: str) -> bool:
    """Whether the terminal's encoding has these characters."""
    try:
        text.encode(screen.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def enlarged(picture: Array, scale: int) -> Array:
    """Return a picture [h, w, c] whose pixels are squares of several."""
    return np.repeat(np.repeat(picture, scale, axis=0), scale, axis=1)


def half_blocks(picture: Array) -> list[Text]:
    """Return a line for every two rows of pixels of [h, w, c] in [0, 1]: the upper in the foreground's color."""
    pixels = np.rint(np.clip(picture, 0, 1) * 255).astype(int)
    pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3)) if pixels.shape[2] == 1 else pixels
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    return [
        Text.assemble(*((HALF_BLOCK, f"{_color(a)} on {_color(b)}") for a, b in zip(upper, lower, strict=True)))
        for upper, lower in zip(pixels[::2], pixels[1::2], strict=True)
    ]


def _color(pixel: Array) -> str:
    return f"rgb({pixel[0]},{pixel[1]},{pixel[2]})"


def shades(picture: Array) -> list[Text]:
    """Return a line for every two rows of pixels of [h, w, c] in [0, 1]: their mean brightness as a shade."""
    gray = np.clip(picture, 0, 1).mean(axis=2)
    gray = np.concatenate([gray, np.zeros_like(gray[:1])]) if len(gray) % 2 else gray
    levels = np.rint((gray[::2] + gray[1::2]) / 2 * (len(SHADES) - 1)).astype(int)
    return [Text("".join(SHADES[level] for level in row)) for row in levels]
