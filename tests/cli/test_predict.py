"""`gradveil predict` and `gradveil export`: a row for every row, by the names of the classes; all else is refused."""

import csv
import json

import numpy as np
import pytest

import gradveil
from gradveil.cli.main import main
from gradveil.inference.new_examples import read_new

SMALL = {"clients": 4, "cohort": 4, "client_size": 40, "batch": 4, "local_steps": 2, "rounds": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict") / "run"
    return gradveil.train(gradveil.plan("synthetic", "fed-cdp", **SMALL), folder)


@pytest.fixture(scope="module")
def x():
    return gradveil.dataset("synthetic").test.x[:9]


def rows_of(text):
    return list(csv.reader(text.splitlines()))


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_are_predicted_row_by_row(model, x, tmp_path, capsys, ending):
    new = tmp_path / f"new.{ending}"
    np.save(new, x) if ending == "npy" else np.savez(new, x=x, y=np.zeros(9, int))
    assert main(["predict", str(model.folder), str(new), "--out", str(tmp_path / "p.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    head, *rows = rows_of((tmp_path / "p.csv").read_text())
    assert head == ["prediction", *(f"p_{name}" for name in model.classes)]
    assert [row[0] for row in rows] == model.predict(x, names=True).tolist()
    np.testing.assert_allclose(np.array([row[1:] for row in rows], float), model.predict_proba(x), rtol=1e-5)
    assert (told["rows"], sum(told["predictions"].values())) == (9, 9)


def test_without_a_file_predictions_go_to_standard_output(model, x, tmp_path, capsys):
    np.save(tmp_path / "new.npy", x)
    assert main(["predict", str(model.folder), str(tmp_path / "new.npy")]) == 0
    assert len(rows_of(capsys.readouterr().out)) == 10


def test_no_rows_are_no_predictions(model, x, tmp_path, capsys):
    np.save(tmp_path / "new.npy", x[:0])
    assert main(["predict", str(model.folder), str(tmp_path / "new.npy")]) == 0
    assert len(rows_of(capsys.readouterr().out)) == 1


def test_a_model_is_exported_from_its_folder(model, tmp_path, capsys):
    assert main(["export", str(model.folder), "--out", str(tmp_path / "p.npz"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    with np.load(tmp_path / "p.npz") as arrays:
        assert {name: list(array.shape) for name, array in arrays.items()} == told["parameters"]


def refused(capsys, *arguments):
    assert main(list(map(str, arguments))) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    return answer.err


def test_what_cannot_be_predicted_is_one_sentence(model, x, tmp_path, capsys):
    run, new = model.folder, tmp_path / "new.npy"
    np.save(new, x[:, :-1])
    assert "examples of shape" in refused(capsys, "predict", run, new)
    np.save(new, np.array([{"a": 1}]), allow_pickle=True)
    assert "array of numbers" in refused(capsys, "predict", run, new)
    np.savez(tmp_path / "new.npz", z=x)
    assert "named x, and holds z" in refused(capsys, "predict", run, tmp_path / "new.npz")
    assert "does not exist" in refused(capsys, "predict", run, tmp_path / "none.npy")
    for command in (["predict", tmp_path / "none", new], ["export", tmp_path / "none", "--out", tmp_path / "a.npz"]):
        assert refused(capsys, *command).startswith(f"gradveil: '{tmp_path / 'none'}': is not a run folder")
    with pytest.raises(gradveil.BadInput, match="is not a run folder"):
        gradveil.load(tmp_path / "none")
    (tmp_path / "new.txt").write_text("1,2")
    assert ".npy file, or an .npz file" in refused(capsys, "predict", run, tmp_path / "new.txt")
    np.save(new, x)
    assert "needs --out" in refused(capsys, "predict", run, new, "--json")
    assert "must end in" in refused(capsys, "export", run, "--out", tmp_path / "model.pt")


def test_a_run_that_was_taken_apart_is_refused(model, x, tmp_path, capsys):
    np.save(tmp_path / "new.npy", x)
    other = gradveil.train(gradveil.plan("synthetic", "fed-cdp", **SMALL, seed=1), tmp_path / "other")
    place = model.save(tmp_path / "copy")
    (place / "encoding.json").write_bytes((other.folder / "encoding.json").read_bytes())
    assert "belongs to another run" in refused(capsys, "predict", place, tmp_path / "new.npy")
    (place / "encoding.json").unlink()
    assert "encoding.json' is missing" in refused(capsys, "predict", place, tmp_path / "new.npy").replace(":", "")


AGES = [31, 45, 28, 63, 52, 39, 71, 24, 58, 47, 36, 66]


def table_of(rows, target=True):
    """A table in which the old are sick, with a category, a number that is missing once and an empty column."""
    head = "age,ward,empty,weight" + (",sick" if target else "")
    lines = [
        f"{age},{'north' if i % 3 else 'south'},,{'' if i == 5 else 50 + age / 2}"
        + (f",{'yes' if age > 45 else 'no'}" * target)
        for i, age in enumerate(rows)
    ]
    return "\n".join([head, *lines]) + "\n"


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    """A run on a table without a schema, whose encoding is taken from its rows."""
    home = tmp_path_factory.mktemp("table")
    (home / "all.csv").write_text(table_of(AGES * 12))
    small = {"clients": 2, "cohort": 2, "client_size": 20, "batch": 10, "local_steps": 2, "rounds": 12, "lr": 0.5}
    plan = gradveil.plan(home / "all.csv", "non-private", target="sick", noise_source="seeded", **small)
    return gradveil.train(plan, home / "run"), home


def test_new_rows_of_a_table_are_encoded_as_those_that_were_trained_on(table_run, capsys):
    model, home = table_run
    data = gradveil.dataset(home / "all.csv", target="sick")
    assert np.array_equal(read_new(home / "all.csv", model.encoding).sum(0)[1:3], [96, 48])
    rows = read_new(home / "all.csv", model.encoding)
    everyone = np.concatenate([data.train.x, data.test.x])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, everyone.tolist()))
    (home / "new.csv").write_text(table_of(AGES, target=False))
    assert main(["predict", str(model.folder), str(home / "new.csv"), "--out", str(home / "p.csv")]) == 0
    head, *predicted = rows_of((home / "p.csv").read_text())
    assert head == ["prediction", "p_no", "p_yes"]
    right = [row[0] == ("yes" if age > 45 else "no") for row, age in zip(predicted, AGES, strict=True)]
    assert sum(right) >= 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.replace("ward", "wing"), "'wing' that the run does not know: remove it\n"),
        (lambda t: t.replace("south", "west", 1), "'west' in the column 'ward', which is no level of the run"),
        (lambda t: t.replace("age,", "", 1).replace("31,", "", 1), "fields"),
        (lambda t: "ward,empty,weight\nnorth,,60\n", "no column 'age', which the run needs"),
        (lambda t: t.replace("31,", "old,", 1), "'old' in the column 'age'"),
    ],
)
def test_unknown_columns_levels_and_cells_are_refused_by_name(table_run, tmp_path, capsys, change, said):
    (tmp_path / "new.csv").write_text(change(table_of(AGES, target=False)))
    assert said in refused(capsys, "predict", table_run[0].folder, tmp_path / "new.csv")


def test_a_run_on_arrays_takes_no_table(model, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("a\n1\n")
    assert "come from a .npy file" in refused(capsys, "predict", model.folder, tmp_path / "new.csv")


def test_the_encoding_of_private_rows_is_for_their_owner_alone(table_run):
    assert (table_run[0].folder / "encoding.json").stat().st_mode & 0o077 == 0


def test_frames_and_parquet_files_are_predicted_as_the_csv_file(table_run, tmp_path, capsys):
    arrow, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    model, home = table_run
    frame = arrow.read_csv(home / "all.csv")
    expected = model.predict_proba(read_new(home / "all.csv", model.encoding))
    assert np.array_equal(model.predict_proba(frame), expected)
    parquet.write_table(frame, tmp_path / "all.parquet")
    assert main(["predict", str(model.folder), str(tmp_path / "all.parquet")]) == 0
    assert len(rows_of(capsys.readouterr().out)) == len(frame) + 1
    sick = frame.column("sick").to_pylist()
    assert model.evaluate(frame) == model.evaluate(frame, sick)
    assert model.evaluate(frame).accuracy == np.mean(model.predict(frame, names=True) == np.array(sick, object))
    with pytest.raises(gradveil.BadInput, match="'sick'"):
        model.evaluate(frame.drop_columns(["sick"]))
    with pytest.raises(gradveil.BadInput, match="x: row 1 has no value of 'sick'"):
        model.evaluate(frame.slice(0, 2).set_column(4, "sick", [["yes", None]]))
    with pytest.raises(gradveil.BadInput, match="has a column 'wing'"):
        model.predict(frame.rename_columns(["age", "wing", "empty", "weight", "sick"]))


def test_a_run_on_arrays_takes_no_frame(model):
    frame = pytest.importorskip("pyarrow").table({"a": [1.0]})
    with pytest.raises(gradveil.BadInput, match="trained on arrays"):
        model.predict(frame)
