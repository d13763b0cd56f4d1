"""`Dataset.of` takes files by their paths, as `gradveil.dataset` does, and refuses what a file cannot be told."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import gradveil
from gradveil import Dataset
from gradveil.data.schema_text import schema_toml
from gradveil.data.table_schema import CategoryColumn, ClassTarget, NumberColumn, Schema
from gradveil.errors import BadInput

N = 60
X = np.arange(N * 3, dtype=np.float32).reshape(N, 3) / 100
Y = np.arange(N) % 3
COLUMNS = {
    "age": [20.5 + i for i in range(N)],
    "ward": ["ab"[i % 2] for i in range(N)],
    "site": ["north" if i % 5 else "south" for i in range(N)],
    "sick": ["yes" if i % 3 else "no" for i in range(N)],
}
SCHEMA = Schema(
    ClassTarget("sick", ("no", "yes")), (NumberColumn("age", 0, 100), CategoryColumn("ward", ("a", "b"))), public=True
)


@pytest.fixture
def folder(tmp_path):
    """One table in three forms, arrays with and without a test split, numbers, and a schema."""
    parquet.write_table(pa.table(COLUMNS), tmp_path / "t.parquet")
    feather.write_feather(pa.table(COLUMNS), tmp_path / "t.arrow")
    lines = [",".join(map(str, row)) for row in zip(*COLUMNS.values(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    np.savez(tmp_path / "k.npz", x_train=X[:40], y_train=Y[:40, None], x_test=X[40:], y_test=Y[40:, None])
    np.savez(tmp_path / "n.npz", x=X, y=X[:, 0])
    (tmp_path / "s.toml").write_text(schema_toml(SCHEMA))
    return tmp_path


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("name", ["d.npz", "k.npz"])
def test_arrays_in_a_file_are_read_as_by_its_path(folder, name, kind):
    data = Dataset.of(kind(folder / name))
    loaded = gradveil.dataset(folder / name)
    assert (data.digest(), data.classes, data.caveats) == (loaded.digest(), loaded.classes, loaded.caveats)
    assert data.name == f"memory:{name}"


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow"])
def test_a_table_in_a_file_is_read_as_by_its_path(folder, name):
    path = str(folder / name)
    loaded = gradveil.dataset(path, target="sick", client_column="site")
    for data in (Dataset.of(path, "sick", clients="site"), Dataset.of(path, target="sick", clients="site")):
        assert data.digest() == loaded.digest()
        assert (data.caveats, data.client_names) == (loaded.caveats, ("north", "south"))


def test_a_table_in_a_file_is_encoded_by_a_schema(folder):
    path = str(folder / "t.parquet")
    loaded = gradveil.dataset(path, schema=SCHEMA, client_column="site", test=path, validation=0.1)
    data = Dataset.of(path, schema=str(folder / "s.toml"), clients="site", test=path, validation=0.1, name="mine")
    assert data.digest() == loaded.digest()
    assert (data.name, data.schema) == ("memory:mine", SCHEMA)


def test_arrays_in_a_file_take_the_options_of_arrays(folder):
    assert Dataset.of(folder / "k.npz", classes=("a", "b", "c")).caveats == ()
    assert Dataset.of(folder / "n.npz", target_range=(0, 2)).target_range == (0, 2)
    assert len(Dataset.of(folder / "d.npz", test=folder / "d.npz").test) == N
    assert Dataset.of(folder / "d.npz", clients=COLUMNS["site"]).client_names == ("north", "south")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda d: Dataset.of("digits"), "x = 'digits': is no path of a file or folder; gradveil.dataset loads"),
        (lambda d: Dataset.of(str(d / "no.npz")), "no.npz does not exist"),
        (lambda d: Dataset.of(d / "d.npz", Y), "y: is in the file"),
        (lambda d: Dataset.of(d / "d.npz", target="sick"), "target = 'sick': names a column"),
        (lambda d: Dataset.of(d / "d.npz", schema=SCHEMA), "schema: names columns"),
        (lambda d: Dataset.of(d / "k.npz", test=(X, Y)), "test: .*k.npz has a test split of its own"),
        (lambda d: Dataset.of(d / "d.npz", test=d / "k.npz"), "test: .*k.npz must hold x and y alone"),
        (lambda d: Dataset.of(d / "t.csv", COLUMNS["sick"]), "y: .* the column of t.csv to predict"),
        (lambda d: Dataset.of(d / "t.csv", "sick", clients=COLUMNS["site"]), "clients: .* column of t.csv"),
        (lambda d: Dataset.of(d / "t.csv", "sick", classes=("no", "yes")), "classes: is said by the schema"),
        (lambda d: Dataset.of(d / "t.csv", "sick", target_range=(0, 1)), "target_range: is said by the schema"),
        (lambda d: Dataset.of(d / "t.csv", "sick", test=(X, Y)), "test = .*: a path is expected"),
    ],
)
def test_what_a_file_cannot_be_told_is_refused_by_name(folder, make, said):
    with pytest.raises(BadInput, match=said):
        make(folder)
