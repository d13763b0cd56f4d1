"""A picture in the terminal: known pixels become exactly these cells."""

import io

import numpy as np
import pytest
from rich.console import Console

from gradveil.cli.run_picture import HALF_BLOCK, enlarged, half_blocks, shades, side_by_side

CHECKERS = np.array([[[0.0], [1.0]], [[0.5], [0.25]]])


def terminal(width=80, colors="truecolor", encoding="utf-8", is_terminal=True):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    environment = {"TERM": "xterm-256color"}
    return Console(
        file=file, width=width, color_system=colors, force_terminal=is_terminal, no_color=False, _environ=environment
    )


def printed(screen, lines):
    for line in lines:
        screen.print(line)
    screen.file.flush()
    return screen.file.buffer.getvalue().decode()


def test_two_pixels_share_a_cell_the_upper_as_foreground_and_the_lower_as_background():
    (line,) = half_blocks(CHECKERS)
    assert line.plain == HALF_BLOCK * 2
    assert [str(span.style) for span in line.spans] == [
        "rgb(0,0,0) on rgb(128,128,128)",
        "rgb(255,255,255) on rgb(64,64,64)",
    ]


def test_a_true_color_terminal_is_sent_these_bytes():
    text = printed(terminal(), half_blocks(CHECKERS))
    assert text == (
        f"\x1b[38;2;0;0;0;48;2;128;128;128m{HALF_BLOCK}\x1b[0m\x1b[38;2;255;255;255;48;2;64;64;64m{HALF_BLOCK}\x1b[0m\n"
    )


def test_colors_stay_colors_and_values_beyond_the_range_are_clamped():
    picture = np.array([[[2.0, -1.0, 0.2]]])
    (line,) = half_blocks(picture)
    assert str(line.spans[0].style) == "rgb(255,0,51) on rgb(0,0,0)"  # an odd last row stands on black


def test_without_colors_brightness_becomes_a_shade():
    lines = shades(np.repeat(np.array([[[0.0], [0.25], [0.5], [0.75], [1.0]]]), 2, axis=0))
    assert [line.plain for line in lines] == [" \u2591\u2592\u2593\u2588"]


def test_a_pixel_is_enlarged_to_a_square():
    assert enlarged(CHECKERS, 2)[..., 0].tolist() == [
        [0.0, 0.0, 1.0, 1.0],
        [0.0, 0.0, 1.0, 1.0],
        [0.5, 0.5, 0.25, 0.25],
        [0.5, 0.5, 0.25, 0.25],
    ]


def test_pictures_stand_below_their_captions_with_a_gap_between():
    one, other = np.zeros((8, 8, 1)), np.ones((8, 8, 1))
    heads, *lines = side_by_side([one, other], [["left", "right"]], terminal(colors=None))
    assert heads.plain == "left".ljust(22) + "right"
    assert [line.plain for line in lines] == [" " * 22 + "\u2588" * 16] * 8


@pytest.mark.parametrize(
    "screen", [terminal(is_terminal=False), terminal(width=40), terminal(encoding="ascii")], ids=["pipe", "40", "ascii"]
)
def test_no_picture_where_it_could_not_be_seen(screen):
    assert side_by_side([CHECKERS, CHECKERS], [["left", "right"]], screen) is None
