"""A user's own data is read as it stands, and every way to get it wrong has its sentence."""

import numpy as np
import pytest
from PIL import Image

from gradveil.data.sources import load, where
from gradveil.data.split import quarter
from gradveil.errors import BadInput


def _csv(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def _rows(n=40):
    return [f"{i},{'red' if i % 3 else 'blue'},{'yes' if i % 2 else 'no'}" for i in range(n)]


def _table(folder, rows, header="age,color,sick"):
    return _csv(folder, "\n".join([header, *rows]) + "\n")


def _npz(folder, **arrays):
    path = folder / "d.npz"
    np.savez(path, **arrays)
    return str(path)


def _image(path, size=(6, 4), mode="RGB", value=7):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 9)).save(path)


def test_a_csv_becomes_standardised_numbers_and_one_hot_categories(tmp_path):
    data = load(_table(tmp_path, _rows()), target="sick")
    assert data.own
    assert data.name == "t.csv"
    assert data.classes == ("no", "yes")
    assert (len(data.train), len(data.test), data.validation) == (30, 10, None)
    assert data.shape == (3,)
    assert np.allclose(data.train.x[:, 0].mean(), 0, atol=1e-6)
    assert np.allclose(data.train.x[:, 0].std(), 1, atol=1e-5)
    assert np.all(data.train.x[:, 1:].sum(axis=1) == 1)
    assert any("no epsilon covers" in note and "mean" in note for note in data.notes)
    assert any("categories" in note and "no epsilon" in note for note in data.notes)


def test_a_csv_row_keeps_its_label(tmp_path):
    rows = [f"{i},{'high' if i >= 20 else 'low'}" for i in range(40)]
    data = load(_table(tmp_path, rows, "value,level"), target="level")
    for split in (data.train, data.test):
        highest_low = split.x[split.y == data.classes.index("low")].max()
        assert highest_low < split.x[split.y == data.classes.index("high")].min()


def test_missing_values_are_zero_and_counted(tmp_path):
    rows = [*_rows(), "NA,red,yes", "?,,no", "nan,null,yes", "3,red,", "4,blue,?"]
    data = load(_table(tmp_path, rows), target="sick")
    x = np.concatenate([data.train.x, data.test.x])
    assert np.isfinite(x).all()
    assert len(x) == 43
    assert np.sum(~x[:, 1:].any(axis=1)) == 2
    assert any(note.startswith("5 missing values") for note in data.notes)
    assert any(note.startswith("2 rows without a value of 'sick'") for note in data.notes)


def test_features_say_which_places_of_a_row_belong_to_which_column(tmp_path):
    rows = [f"{i % 7},{'red' if i % 2 else 'blue'},{i % 5},{'a' if i % 3 else 'b'}" for i in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["size,colour,age,target", *rows]))
    data = load(str(tmp_path / "table.csv"), target="target")
    assert [(f.name, f.start, f.stop) for f in data.features] == [("size", 0, 1), ("colour", 1, 3), ("age", 3, 4)]
    colours = data.train.x[:, 1:3]
    assert (colours.sum(axis=1) == 1).all()


@pytest.mark.data
def test_the_features_of_adult_cover_its_105_places_in_order():
    if where("adult") is None:
        pytest.skip("adult is neither in GRADVEIL_DATA nor in the cache")
    data = load("adult", allow_download=False)
    assert [f.start for f in data.features[1:]] == [f.stop for f in data.features[:-1]]
    assert (data.features[0].start, data.features[-1].stop, len(data.features)) == (0, 105, 14)
    levels = [data.train.x[:, f.start : f.stop].sum(axis=1) for f in data.features if f.stop - f.start > 1]
    assert len(levels) == 8
    assert all(((total == 1) | (total == 0)).all() for total in levels)


def test_scaling_and_categories_come_from_the_training_rows_alone(tmp_path):
    y = np.arange(40) % 2
    _, test = quarter(np.where(y == 1, 1, 0))
    rows = _rows()
    for i in test:
        rows[i] = f"1000000,violet,{'yes' if i % 2 else 'no'}"
    data = load(_table(tmp_path, rows), target="sick")
    assert data.shape == (3,)
    assert np.abs(data.train.x[:, 0]).max() < 3
    assert data.test.x[:, 0].min() > 1000
    assert not data.test.x[:, 1:].any()
    assert any(note.startswith("10 test values of categories") for note in data.notes)


def test_semicolons_a_byte_order_mark_and_quoted_fields_are_understood(tmp_path):
    text = "\ufeff" + "a;b;c\n" + "".join(f'{i};"x;{i % 2}";{i % 2}\n' for i in range(20))
    data = load(_csv(tmp_path, text), target="c")
    assert data.shape == (3,)


def test_classes_that_are_numbers_stand_in_their_order(tmp_path):
    rows = [f"{i},{(9, 10, 2)[i % 3]}" for i in range(30)]
    assert load(_table(tmp_path, rows, "v,c"), target="c").classes == ("2", "9", "10")


def test_constant_and_empty_columns_do_no_harm(tmp_path):
    rows = [f"5,,{i},{i % 2}" for i in range(20)]
    data = load(_table(tmp_path, rows, "same,void,v,c"), target="c")
    assert data.shape == (2,)
    assert not data.train.x[:, 0].any()
    assert "the column 'void' is empty and left out" in data.notes


@pytest.mark.parametrize(
    ("header", "rows", "target", "sentence"),
    [
        ("age,color,sick", _rows(), None, "--target.*age, color, sick"),
        ("age,color,sick", _rows(), "ill", "no column 'ill'; its columns are age, color, sick"),
        ("age,color,sick", [*_rows(), "1,2"], "sick", "line 42 .* has 2 fields"),
        ("age,color,sick", _rows(6), "sick", "6 labelled records"),
        ("age,color,sick", [row.replace("yes", "no") for row in _rows()], "sick", "one class only"),
        ("age,color,sick", [f"1,red,{i}" for i in range(40)], "sick", "40 different labels"),
        ("1,2,3", _rows(), "sick", "holds numbers"),
        ("a,a,sick", _rows(), "sick", "'a' more than once"),
        ("sick", ["yes", "no"] * 10, "sick", "no column besides"),
        ("id,v,sick", [f"p{i},{i},{i % 2}" for i in range(400)], "sick", "'id' .* different texts"),
        ("v,sick", [f",{i % 2}" for i in range(40)], "sick", "no column with values"),
    ],
)
def test_a_table_that_cannot_work_is_refused_in_one_sentence(tmp_path, header, rows, target, sentence):
    with pytest.raises(BadInput, match=sentence) as caught:
        load(_table(tmp_path, rows, header), target=target)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"a,b\n\xff\xfe,1\n", b'a,b\n"1,2\n'])
def test_a_csv_that_is_no_csv_is_refused(tmp_path, content):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"bad\.csv"):
        load(str(path), target="b")


def test_an_npz_of_pixels_stays_bytes_and_gains_a_channel(tmp_path):
    x = np.arange(20 * 5 * 4, dtype=np.uint8).reshape(20, 5, 4)
    data = load(_npz(tmp_path, x=x, y=np.arange(20) % 2))
    assert data.shape == (5, 4, 1)
    assert data.train.x.dtype == np.uint8
    assert data.own
    assert sorted(data.train.x[:, 0, 0, 0].tolist() + data.test.x[:, 0, 0, 0].tolist()) == sorted(x[:, 0, 0].tolist())


@pytest.mark.parametrize("kind", [np.int64, np.int16, np.uint32])
def test_integer_pixels_are_read_as_bytes(tmp_path, kind):
    x = np.arange(20 * 12, dtype=np.uint8).reshape(20, 4, 3)
    data = load(_npz(tmp_path, x=x.astype(kind), y=np.arange(20) % 2))
    assert data.train.x.dtype == np.uint8
    assert data.digest() == load(_npz(tmp_path, x=x, y=np.arange(20) % 2)).digest()
    assert "x is read as pixels, divided by 255" in data.notes


@pytest.mark.parametrize("shape", [(20, 1, 5, 3), (20, 3, 8, 1), (20, 3, 3, 3), (20, 8, 8, 3)])
def test_channels_that_come_last_are_accepted(tmp_path, shape):
    assert load(_npz(tmp_path, x=np.ones(shape), y=np.arange(20) % 2)).shape == shape[1:]


def test_an_npz_of_floats_and_text_labels_is_used_as_it_is(tmp_path):
    x = np.linspace(0, 1, 60).reshape(20, 3)
    data = load(_npz(tmp_path, x=x, y=np.array(["b", "a"] * 10)))
    assert data.classes == ("a", "b")
    assert data.train.x.dtype == np.float32
    assert np.isin(data.test.x, x.astype(np.float32)).all()


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": np.ones((20, 2))}, "named x and y, or .*, and holds x"),
        ({"x": np.full((20, 2), np.nan), "y": np.arange(20) % 2}, "not a finite number, first in record 0"),
        ({"x": np.full((20, 2), 1e300), "y": np.arange(20) % 2}, "not a finite number"),
        ({"x": np.ones((20, 2), dtype=np.int64), "y": np.arange(20) % 2}, "not int64"),
        ({"x": np.full((20, 4, 4), 300), "y": np.arange(20) % 2}, "pixels from 300 to 300, and they must be from 0"),
        ({"x": np.full((20, 4, 4), -1), "y": np.arange(20) % 2}, "pixels from -1 to -1"),
        ({"x": np.full((20, 2), 1e30), "y": np.arange(20) % 2}, r"beyond 1e\+06 in size, first in record 0 \(1e\+30\)"),
        ({"x": np.full((20, 2), -2e6, np.float32), "y": np.arange(20) % 2}, r"record 0 \(-2e\+06\)"),
        ({"x": np.ones((20, 3, 8, 9)), "y": np.arange(20) % 2}, r"\(20, 3, 8, 9\).* x\.transpose\(0, 2, 3, 1\)"),
        ({"x": np.ones((20, 1, 8, 8), np.uint8), "y": np.arange(20) % 2}, "channels before height and width"),
        ({"x": np.ones(20), "y": np.arange(20) % 2}, "shape"),
        ({"x": np.ones((20, 2)), "y": np.arange(19) % 2}, "each of the 20 records"),
        ({"x": np.ones((20, 2)), "y": np.linspace(0, 1, 20)}, "integers or text"),
        ({"x": np.ones((20, 2)), "y": np.zeros(20, dtype=int)}, "one class only"),
        ({"x": np.ones((4, 2)), "y": np.arange(4) % 2}, "4 labelled records"),
        ({"x": np.array([object()] * 20), "y": np.arange(20) % 2}, "plain arrays"),
    ],
)
def test_an_npz_that_cannot_work_is_refused(tmp_path, arrays, sentence):
    with pytest.raises(BadInput, match=sentence):
        load(_npz(tmp_path, **arrays))


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"not a zip file")
    with pytest.raises(BadInput, match="cannot be read"):
        load(str(tmp_path / "d.npz"))


def test_a_folder_of_images_is_read_by_class(tmp_path):
    for i in range(12):
        _image(tmp_path / "cats" / f"{i}.png", value=1)
        _image(tmp_path / "dogs" / f"{i}.bmp", value=2)
    (tmp_path / "cats" / "notes.txt").write_text("a note")
    (tmp_path / "cats" / ".hidden").write_text("skipped without a word")
    data = load(str(tmp_path))
    assert data.classes == ("cats", "dogs")
    assert data.shape == (4, 6, 3)
    assert np.array_equal(data.train.x[:, 0, 0, 0], data.train.y + 1)
    assert data.notes[0].startswith("1 files")


def test_gray_images_have_one_channel_and_a_mixture_three(tmp_path):
    for i in range(10):
        _image(tmp_path / "a" / f"{i}.png", mode="L")
        _image(tmp_path / "b" / f"{i}.png", mode="L")
    assert load(str(tmp_path)).shape == (4, 6, 1)
    _image(tmp_path / "b" / "c.png")
    assert load(str(tmp_path)).shape == (4, 6, 3)


def test_the_first_image_of_another_size_is_named(tmp_path):
    for i in range(10):
        _image(tmp_path / "a" / f"{i}.png")
        _image(tmp_path / "b" / f"{i}.png", size=(6, 4) if i < 5 else (7, 4))
    with pytest.raises(BadInput, match=r"5\.png has 7 x 4 pixels where the images before it have 6 x 4"):
        load(str(tmp_path))


def test_a_folder_that_cannot_work_is_refused(tmp_path):
    with pytest.raises(BadInput, match="is empty"):
        load(str(tmp_path))
    _image(tmp_path / "loose.png")
    with pytest.raises(BadInput, match="no subfolders"):
        load(str(tmp_path))
    (tmp_path / "a").mkdir()
    with pytest.raises(BadInput, match="hold no images"):
        load(str(tmp_path))
    _image(tmp_path / "a" / "large.png", size=(2000, 2))
    with pytest.raises(BadInput, match="at most 1024"):
        load(str(tmp_path))
    (tmp_path / "a" / "large.png").write_bytes(b"\x89PNG no picture")
    with pytest.raises(BadInput, match=r"large\.png cannot be read as an image"):
        load(str(tmp_path))


def test_paths_that_lead_nowhere_or_to_something_else_are_refused(tmp_path):
    with pytest.raises(BadInput, match="does not exist"):
        load(str(tmp_path / "gone.csv"), target="y")
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(BadInput, match=r"neither a \.csv"):
        load(str(tmp_path / "a.xlsx"))
    with pytest.raises(BadInput, match="only for tables"):
        load(_npz(tmp_path, x=np.ones((20, 2)), y=np.arange(20) % 2), target="y")


@pytest.mark.parametrize("labels", [[0] * 15 + [1], list(range(8)) * 2, [0, 0, 1, 1, 2, 3, 4, 5], [0] * 90 + [1] * 10])
def test_every_class_is_trained_on_and_the_split_is_fixed(labels):
    labels = np.array(labels)
    train, test = quarter(labels)
    assert set(labels[train]) == set(labels)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert np.array_equal(train, quarter(labels)[0])
    assert 0 < len(test) <= -(-len(labels) // 4)


def test_a_quarter_of_each_large_class_is_held_out():
    labels = np.array([0] * 400 + [1] * 80 + [2] * 8)
    _, test = quarter(labels)
    assert np.bincount(labels[test]).tolist() == [100, 20, 2]
