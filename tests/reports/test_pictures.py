"""The gallery shows every pixel and every letter it is given, and says no in a sentence."""

from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from gradveil.errors import BadInput
from gradveil.reports.pictures import Strip, frames, gallery

GREY = np.full((4, 4, 1), 0.8)


def page(png):
    return np.asarray(Image.open(BytesIO(png)).convert("RGB"))


def one(image, name="", caption="", title="", heading=""):
    return gallery(title, (heading,), [Strip(name, (image,), (caption,))])


def pixels(seed, shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def squares(bytes_, factor):
    """Give what a picture must look like: [h, w, c] uint8 as [h * factor, w * factor, 3]."""
    return np.kron(np.broadcast_to(bytes_, (*bytes_.shape[:2], 3)), np.ones((factor, factor, 1), np.uint8))


def places(sheet, patch):
    """Give every (y, x) where the patch [h, w, c] uint8 lies in the sheet, bit for bit."""
    (height, width, depth), first = patch.shape, patch[0].tobytes()
    for y in range(len(sheet) - height + 1):
        row, at = sheet[y].tobytes(), -1
        while (at := row.find(first, at + 1)) >= 0:
            x = at // depth
            if at % depth == 0 and np.array_equal(sheet[y : y + height, x : x + width], patch):
                yield y, x


def ink(sheet):
    """Give 1 wherever the paper is not white [h, w, 1]: also the palest rim of a letter counts."""
    return (sheet.min(axis=2, keepdims=True) < 255).astype(np.uint8)


def written(text):
    """Give the ink of a text, drawn with room to spare and cropped to itself."""
    sheet = Image.new("RGB", (600, 300), "#ffffff")
    ImageDraw.Draw(sheet).text((30, 30), text, fill="#202020", font=ImageFont.load_default(size=13))
    marks = ink(np.asarray(sheet))
    rows, columns = np.nonzero(marks.any(axis=(1, 2)))[0], np.nonzero(marks.any(axis=(0, 2)))[0]
    return marks[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("height", "factor"), [(1, 96), (8, 12), (28, 3), (32, 3), (62, 2), (96, 1), (200, 1)])
def test_every_true_pixel_is_shown_as_a_square_of_its_colour(height, factor, channels):
    truth = pixels(height, (height, 9, channels))
    sheet = page(one((truth / 255).astype(np.float32), "client 3", "truth"))
    assert len(list(places(sheet, squares(truth, factor)))) == 1


def test_nan_is_black_and_what_is_out_of_range_is_clamped():
    wild = np.array([[-5.0, 0.0, 0.2, 1.0], [7.0, np.nan, np.inf, -np.inf]])[..., None]
    shown = np.array([[0, 0, 51, 255], [255, 0, 255, 0]], np.uint8)[..., None]
    for dtype in (np.float64, np.float32):
        assert list(places(page(one(wild.astype(dtype))), squares(shown, 48)))


def test_strips_go_down_and_columns_go_right_on_common_lines():
    truths = [[pixels(10 * i + j, (8, 8, 3)) for j in range(3)] for i in range(2)]
    captions = ("", "a caption wider than its picture", "two\nlines")
    names = ("client", "client with a long name")
    strips = [Strip(name, tuple(x / 255 for x in row), captions) for name, row in zip(names, truths, strict=True)]
    sheet = page(gallery("leaks", ("truth", "a", "b"), strips))
    spots = np.array([[next(places(sheet, squares(truth, 12))) for truth in row] for row in truths])
    assert np.all(spots[0, :, 0] + 96 < spots[1, :, 0])
    assert np.all(spots[:, :-1, 1] + 96 < spots[:, 1:, 1])
    assert np.all(np.ptp(spots[..., 0], axis=1) == 0)
    assert np.all(np.ptp(spots[..., 1], axis=0) == 0)
    (_, above), (_, below) = places(ink(sheet), written("client"))
    assert above == below


def test_the_page_grows_by_the_same_step_with_every_row_and_every_column():
    def size(rows, columns):
        strips = [Strip("client", (GREY,) * columns, ("RMSE 0.1",) * columns)] * rows
        return page(gallery("t", ("truth",) * columns, strips)).shape[:2]

    heights, widths = zip(*(size(rows, 2) for rows in (1, 2, 3)), strict=True)
    assert heights[1] - heights[0] == heights[2] - heights[1] > 96
    assert len(set(widths)) == 1
    heights, widths = zip(*(size(2, columns) for columns in (1, 2, 3)), strict=True)
    assert widths[1] - widths[0] == widths[2] - widths[1] > 96
    assert len(set(heights)) == 1


@pytest.mark.parametrize("text", ["j", "jolly long text, wider than a picture (gjq|)", "a j\nj gq" + "\nand so on" * 9])
@pytest.mark.parametrize("place", ["title", "heading", "name", "caption"])
def test_no_text_is_cut_or_covered(place, text):
    texts = {"title": "T", "heading": "H", "name": "N", "caption": "C"} | {place: text}
    first = Strip(texts["name"], (GREY, GREY, GREY), ("C", texts["caption"], "C"))
    second = Strip("N", (GREY, GREY, GREY), ("C", "C", "C"))
    sheet = page(gallery(texts["title"], ("H", texts["heading"], "H"), [first, second]))
    assert list(places(ink(sheet), written(text)))


@pytest.mark.parametrize("wide", ["picture", "heading", "caption"])
def test_heading_and_caption_are_centred_on_the_picture_and_names_start_below_the_title(wide):
    truth = pixels(0, (8, 40 if wide == "picture" else 2, 3))
    texts = {"heading": "Head", "caption": "Under"} | {wide: "Much wider than the picture"}
    sheet = page(one(truth / 255, "Name", texts["caption"], "Title, longer than the name", texts["heading"]))
    (_, left), width = next(places(sheet, squares(truth, 12))), 12 * truth.shape[1]
    for mark in (written(texts["heading"]), written(texts["caption"])):
        x = next(places(ink(sheet), mark))[1]
        # Whole pixels are halved twice, and a letter may have a pixel of air beside it.
        assert abs(x + mark.shape[1] / 2 - left - width / 2) <= 2
    title, name = (next(places(ink(sheet), written(text))) for text in ("Title, longer than the name", "Name"))
    assert title[0] < name[0]
    assert abs(title[1] - name[1]) <= 2


def test_the_text_is_dark_on_white_paper():
    sheet = page(gallery("title", ("",), [Strip("", (np.ones((4, 4, 1)),), ("",))]))
    assert sheet.min() < 64
    assert all(np.all(side == 255) for side in (sheet[0], sheet[-1], sheet[:, 0], sheet[:, -1]))


def test_a_white_picture_does_not_melt_into_the_page():
    assert page(one(np.ones((4, 4, 1)))).min() < 220


def test_the_same_input_gives_the_same_bytes_and_the_file_holds_nothing_but_the_picture():
    png = one(GREY, "client 3", "RMSE 0.012", "title", "truth")
    assert png == one(GREY.copy(), "client 3", "RMSE 0.012", "title", "truth")
    assert png != one(GREY, "client 3", "RMSE 0.013", "title", "truth")
    at, kinds = 8, []
    while at < len(png):
        kinds.append(png[at + 4 : at + 8])
        at += 12 + int.from_bytes(png[at : at + 4], "big")
    assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}


@pytest.mark.parametrize(
    ("columns", "images", "captions", "sentence"),
    [
        (("a", "b"), (GREY,), ("", ""), "'client 3' has 1 images and 2 captions, .* 2 columns"),
        (("a",), (GREY,), (), "'client 3' has 1 images and 0 captions, .* 1 columns"),
        (("a",), (GREY, GREY), ("", ""), "'client 3' has 2 images and 2 captions, .* 1 columns"),
        ((), (), (), "1 strips and 0 columns"),
        (("a",), (np.zeros((4, 4, 2)),), ("",), r"'client 3' has shape \(4, 4, 2\)"),
        (("a",), (np.zeros((4, 4, 4)),), ("",), r"'client 3' has shape \(4, 4, 4\)"),
        (("a",), (np.zeros((4, 4)),), ("",), r"'client 3' has shape \(4, 4\)"),
        (("a",), (np.zeros((0, 4, 1)),), ("",), r"'client 3' has shape \(0, 4, 1\)"),
        (("a",), (pixels(0, (4, 4, 1)),), ("",), "'client 3' is uint8"),
    ],
)
def test_what_cannot_be_shown_is_refused(columns, images, captions, sentence):
    with pytest.raises(BadInput, match=sentence):
        gallery("t", columns, [Strip("client 3", images, captions)])


def test_a_gallery_of_nothing_is_refused():
    with pytest.raises(BadInput, match="0 strips and 1 columns"):
        gallery("t", ("a",), [])


@pytest.mark.parametrize("count", [*range(1, 40), 100, 301, 1000])
def test_frames_run_from_the_first_to_the_last_with_growing_steps(count):
    for wanted in range(2, min(count, 60) + 3):
        chosen = frames(count, wanted)
        steps = [after - before for before, after in pairwise(chosen)]
        assert (chosen[0], chosen[-1], len(chosen)) == (0, count - 1, min(wanted, count))
        assert all(step > 0 for step in steps)
        # Rounding changes a step by less than 1, so a later step is shorter by 1 at most.
        assert all(after >= before - 1 for before, after in pairwise(steps))


@pytest.mark.parametrize(
    ("count", "wanted", "chosen"),
    [(16, 5, (0, 1, 3, 7, 15)), (100, 3, (0, 9, 99)), (1000, 4, (0, 9, 99, 999)), (5, 5, (0, 1, 2, 3, 4))],
)
def test_frames_are_geometric(count, wanted, chosen):
    assert frames(count, wanted) == chosen


@pytest.mark.parametrize(("count", "wanted"), [(0, 3), (-1, 3), (5, 1), (5, 0), (1, 1)])
def test_frames_that_cannot_hold_both_ends_are_refused(count, wanted):
    with pytest.raises(BadInput, match=f"{wanted} frames of {count} snapshots"):
        frames(count, wanted)
