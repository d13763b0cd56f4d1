"""Arrays, frames, Parquet and Arrow files, Keras archives and torch datasets become the same datasets as files do."""

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from gradveil import Dataset
from gradveil.data.schema_data import fields_of
from gradveil.data.schema_text import schema_toml
from gradveil.data.sources import load
from gradveil.data.table_schema import CategoryColumn, ClassTarget, DateColumn, NumberColumn, Schema
from gradveil.errors import BadInput

N = 60
X = np.arange(N * 3, dtype=np.float32).reshape(N, 3) / 100
Y = np.arange(N) % 3
COLUMNS = {
    "age": [20.5 + i for i in range(N)],
    "ward": ["ab"[i % 2] if i % 7 else None for i in range(N)],
    "day": [date(2024, 1, 1) + timedelta(i) for i in range(N)],
    "fell": [bool(i % 2) for i in range(N)],
    "sick": ["yes" if i % 3 else "no" for i in range(N)],
}
SCHEMA = Schema(
    ClassTarget("sick", ("no", "yes")),
    (
        NumberColumn("age", 0, 100),
        CategoryColumn("ward", ("a", "b")),
        DateColumn("day", ("days",), "2024-01-01", "2024-12-31"),
        CategoryColumn("fell", ("true", "false")),
    ),
    public=True,
)


def load_by(path, schema):
    return Dataset(**fields_of(path, schema))


class Pairs:
    """What torch calls a map-style Dataset."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        return X[i], int(Y[i])


def _csv(folder):
    rows = [
        f"{age},{ward or ''},{day},{str(fell).lower()},{sick}"
        for age, ward, day, fell, sick in zip(*COLUMNS.values(), strict=True)
    ]
    path = folder / "t.csv"
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    return path


def _same(one, other):
    return all(
        np.array_equal(getattr(getattr(one, split), name), getattr(getattr(other, split), name))
        for split in ("train", "test")
        for name in ("x", "y")
    )


def test_arrays_and_pairs_become_what_the_same_npz_file_becomes(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    stored, array, pairs = load(str(tmp_path / "d.npz")), Dataset.of(X, Y), Dataset.of(Pairs())
    assert _same(stored, array)
    assert _same(stored, pairs)
    assert _same(stored, Dataset.of(Pairs()[i] for i in range(len(X))))  # what torch calls an IterableDataset
    assert array.caveats == stored.caveats
    assert array.own


def test_a_frame_becomes_what_the_same_csv_becomes(tmp_path):
    stored = load_by(_csv(tmp_path), SCHEMA)
    framed = Dataset.of(pa.table(COLUMNS), schema=SCHEMA)
    assert _same(stored, framed)
    assert framed.caveats == ()
    labels = Dataset.of(pa.table(COLUMNS).drop_columns("sick"), COLUMNS["sick"], schema=SCHEMA)
    assert _same(stored, labels)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_libraries_become_the_same(library):
    module = pytest.importorskip(library)
    assert _same(Dataset.of(module.DataFrame(COLUMNS), schema=SCHEMA), Dataset.of(pa.table(COLUMNS), schema=SCHEMA))


@pytest.mark.parametrize("dtype", ["str", object, "category"])
def test_labels_of_pandas_may_be_text_of_any_kind(dtype):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    labels = frame["sick"].astype(dtype)
    assert _same(Dataset.of(X, labels), Dataset.of(X, np.array(COLUMNS["sick"])))
    assert _same(Dataset.of(frame.drop(columns="sick"), labels), Dataset.of(frame, "sick"))


def test_numbers_beside_a_frame_are_predicted_as_those_in_it_are():
    table = pa.table(COLUMNS)
    beside = Dataset.of(table.drop_columns("age"), np.array(COLUMNS["age"]))
    assert beside.target_range == (20.5, 79.5)
    assert _same(beside, Dataset.of(table, target="age"))


def test_a_feature_that_is_called_target_is_kept_beside_labels():
    table = pa.table({"target": COLUMNS["age"], "ward": COLUMNS["ward"]})
    data = Dataset.of(table, COLUMNS["sick"])
    assert [column.name for column in data.schema.columns] == ["target", "ward"]
    assert data.schema.target.name == "target_"
    assert Dataset.of(table, COLUMNS["sick"], test=(table, COLUMNS["sick"])).shape == data.shape


def test_a_schema_may_be_named_by_its_path(tmp_path):
    (tmp_path / "s.toml").write_text(schema_toml(SCHEMA))
    assert Dataset.of(pa.table(COLUMNS), schema=str(tmp_path / "s.toml")).schema == SCHEMA


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_parquet_and_arrow_files_are_read_as_csv_files_are(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    (parquet.write_table if ending == "parquet" else feather.write_feather)(pa.table(COLUMNS), path)
    assert _same(load(str(path), schema=SCHEMA), load_by(_csv(tmp_path), SCHEMA))


def test_an_arrow_stream_is_read_as_an_arrow_file_is(tmp_path):
    table = pa.table(COLUMNS)
    with pa.OSFile(str(tmp_path / "s.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert _same(load(str(tmp_path / "s.arrow"), schema=SCHEMA), Dataset.of(table, schema=SCHEMA))


def test_a_parquet_file_without_a_schema_is_encoded_as_the_same_csv_is(tmp_path):
    plain = {name: COLUMNS[name] for name in ("age", "ward", "fell", "sick")}
    parquet.write_table(pa.table(plain), tmp_path / "t.parquet")
    rows = [f"{a},{w or ''},{str(f).lower()},{s}" for a, w, f, s in zip(*plain.values(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["age,ward,fell,sick", *rows]) + "\n")
    one, other = (load(str(tmp_path / f"t.{ending}"), target="sick") for ending in ("parquet", "csv"))
    assert _same(one, other)
    assert one.caveats == other.caveats


def test_a_keras_archive_brings_its_own_test_split(tmp_path):
    np.savez(tmp_path / "k.npz", x_train=X[:40], y_train=Y[:40, None], x_test=X[40:], y_test=Y[40:, None])
    data = load(str(tmp_path / "k.npz"))
    assert np.array_equal(data.train.x, X[:40])
    assert np.array_equal(data.test.y, Y[40:])
    assert "choice of test" not in data.caveats[0]


def test_with_classes_and_a_test_split_nothing_is_taken_from_the_records():
    data = Dataset.of(X[:40], Y[:40], test=(X[40:], Y[40:]), classes=("a", "b", "c"))
    assert data.caveats == ()
    assert data.classes == ("a", "b", "c")
    assert np.array_equal(data.train.y, Y[:40])
    assert Dataset.of(X, Y, classes=("a", "b", "c")).caveats[0].startswith("The choice of test")
    tested = Dataset.of(pa.table(COLUMNS), schema=SCHEMA, test=pa.table(COLUMNS).slice(0, 5))
    assert (len(tested.train), len(tested.test)) == (N, 5)


def test_clients_are_numbered_by_their_names_and_become_no_feature(tmp_path):
    names = np.array(["north", "south"])[np.arange(N) % 5 // 4]
    arrays = Dataset.of(X, Y, clients=names, classes=("a", "b", "c"))
    assert arrays.client_names == ("north", "south")
    held = {tuple(row): name for row, name in zip(X.tolist(), names, strict=True)}
    assert [arrays.client_names[i] for i in arrays.owners] == [held[tuple(row)] for row in arrays.train.x.tolist()]
    assert arrays.digest() != Dataset.of(X, Y, clients=names[::-1], classes=("a", "b", "c")).digest()
    framed = Dataset.of(pa.table(COLUMNS | {"site": names.tolist()}), schema=SCHEMA, clients="site")
    assert framed.shape == (6,)
    assert np.bincount(framed.owners).sum() == len(framed.train)
    path = tmp_path / "c.parquet"
    parquet.write_table(pa.table(COLUMNS | {"site": names.tolist()}), path)
    assert np.array_equal(load(str(path), schema=SCHEMA, client_column="site").owners, framed.owners)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Dataset.of(X), "labels y are missing"),
        (lambda: Dataset.of(X, Y[:5]), "one label for each of the 60 records"),
        (lambda: Dataset.of(X, Y, schema=SCHEMA), "x must be a frame"),
        (lambda: Dataset.of(X, Y, classes=("a",)), "at least two are expected"),
        (lambda: Dataset.of(X, Y, classes=("a", "b")), "'2' is no class of"),
        (lambda: Dataset.of(X, Y, clients=["a"] * N), "at least two are needed"),
        (lambda: Dataset.of(X, Y, clients=["a", "b"]), "one for each of the 60 rows"),
        (lambda: Dataset.of(X, Y, test=(X[:, :2], Y)), "both must be alike"),
        (lambda: Dataset.of([[1, 2], [3]], [0, 1]), "examples of one shape"),
        (lambda: Dataset.of([1, 2, 3]), "pairs of an example and its label"),
        (lambda: Dataset.of(pa.table(COLUMNS), "age2"), "y = 'age2': must be labels, or a column"),
        (lambda: Dataset.of(pa.table(COLUMNS), schema=SCHEMA, clients="site"), "client_column = 'site'"),
        (lambda: Dataset.of(pa.table(COLUMNS), schema=SCHEMA, clients="ward"), "row 0 of the frame has no value"),
        (lambda: load("memory:data"), "is in the memory of a program"),
        (
            lambda: Dataset.of(pa.table(COLUMNS), "sick", clients="sick"),
            "client_column = 'sick': is the column to pred",
        ),
        (lambda: Dataset.of(X, np.array(["a", None] * 30, object)), "y in memory .* holds None in record 1"),
        (lambda: Dataset.of(X, Y / 2), r"not float64; a number to predict needs target_range=\(low, high\)"),
        (lambda: Dataset.of(X, Y, target_range=(0, 2), test=(X[:, :2], Y)), "both must be alike"),
        (lambda: Dataset.of(X, Y, target_range=(0, 2), test=(X[:0], Y[:0])), "none to test on"),
        (lambda: Dataset.of(X[:0], Y[:0], target_range=(0, 2), test=(X, Y)), "no examples to train on"),
        (lambda: Dataset.of(X[:1], Y[:1], target_range=(0, 2)), "no examples to train on"),
        (lambda: Dataset.of(X, Y, target_range=5), "target_range = 5: two numbers are expected"),
        (lambda: Dataset.of(X, Y, target_range=(0,)), r"target_range = \(0,\): two numbers are expected"),
        (lambda: Dataset.of(X, Y, target_range=("a", 1)), "target_range = 'a': a number is expected"),
        (lambda: Dataset.of(X, Y, classes=3), "classes = 3: a list of classes is expected"),
        (lambda: Dataset.of(X, Y, classes="no"), "classes = 'no': a list of classes is expected"),
        (lambda: Dataset.of(X, Y, name=3), "name = 3: a text is expected"),
        (lambda: Dataset.of(X, target="sick"), "target = 'sick': names a column"),
        (lambda: Dataset.of(pa.table(COLUMNS), "sick", schema="nofile.toml"), "schema = 'nofile.toml': cannot be read"),
        (lambda: Dataset.of(pa.table(COLUMNS), "sick", schema=3), "schema = 3: a Schema or the path of one"),
        (lambda: Dataset.of(pa.table(COLUMNS), "sick", target="sick"), "y, target: are two ways"),
        (lambda: Dataset.of(pa.table(COLUMNS), COLUMNS["sick"], schema=SCHEMA), "has a column 'sick' of its own"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(make, said):
    with pytest.raises(BadInput, match=said):
        make()


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="cannot be read as a Parquet or Arrow file"):
        load(str(tmp_path / "t.parquet"), target="sick")
    with pytest.raises(BadInput, match="rows of another file are encoded by a schema"):
        load(str(_csv(tmp_path)), target="sick", test=str(_csv(tmp_path)))
