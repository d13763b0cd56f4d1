"""A trained model in the hands of a user: predictions, scores, copies, exports, pages and how it shows itself."""

import dataclasses
import json
import struct
import xml.etree.ElementTree as ET

import jax
import numpy as np
import pytest
from jax import export as jax_export

import gradveil
from gradveil.inference import exporting, notebook, trained
from gradveil.inference.examples import stored
from gradveil.models.features.description import Features, TableBlock
from gradveil.models.features.maps import RandomMap
from gradveil.runs import store

SMALL = {"clients": 4, "cohort": 4, "client_size": 40, "batch": 4, "local_steps": 2, "rounds": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model with the lines that its training told of."""
    folder, told = tmp_path_factory.mktemp("trained") / "run", []
    return gradveil.train(gradveil.plan("synthetic", "fed-cdp", **SMALL), folder, on_round=told.append), told


@pytest.fixture(scope="module")
def data():
    return gradveil.dataset("synthetic")


def one_by_one(model, x):
    """The logits, each example by itself and without any compiled program around."""
    return np.stack([np.asarray(model.plan.model.apply(model.params, one)) for one in x])


def test_predictions_are_those_of_the_network_one_by_one(run, data, monkeypatch):
    monkeypatch.setattr(trained, "BLOCK", 7)  # several blocks, the last one not full
    model, x = run[0], data.test.x[:16]
    expected = one_by_one(model, x.astype(np.float32) / (255 if x.dtype == np.uint8 else 1))
    np.testing.assert_allclose(model.scores(x), expected, rtol=1e-4, atol=1e-5)
    exponents = np.exp(expected - expected.max(axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(x), exponents / exponents.sum(axis=1, keepdims=True), rtol=1e-4)
    assert model.predict(x).tolist() == expected.argmax(axis=1).tolist()
    assert model.predict(x, names=True).tolist() == [model.classes[i] for i in expected.argmax(axis=1)]
    assert model.predict_proba(x[:0]).shape == (0, len(model.classes))


def test_the_score_on_the_test_split_is_what_the_run_reported(run, data):
    model = run[0]
    score = model.evaluate(data.test.x, data.test.y)
    assert (score.accuracy, score.n) == (model.result.accuracy, len(data.test))
    assert score.loss == pytest.approx(model.result.loss, rel=1e-5)
    assert model.evaluate(data.test.x, [data.classes[i] for i in data.test.y]) == score


@pytest.mark.parametrize("y", [[0], [99] * 450, ["no such class"] * 450, [-1] * 450])
def test_labels_that_are_no_classes_are_refused(run, data, y):
    with pytest.raises(gradveil.BadInput, match="y"):
        run[0].evaluate(data.test.x[:450], y)


def test_each_round_is_told_when_it_is_done_and_kept_as_history(run):
    model, told = run
    assert [line.round for line in told] == [0, 1]
    assert model.history == tuple(told)
    with pytest.raises(gradveil.BadInput, match="on_round = 3"):
        gradveil.train(model.plan, on_round=3)


def test_a_saved_copy_is_loaded_as_the_same_model(run, data, tmp_path):
    model = run[0]
    place = model.save(tmp_path / "below" / "copy")
    again = gradveil.load(place)
    assert np.array_equal(again.scores(data.test.x[:5]), model.scores(data.test.x[:5]))
    assert (again.history, again.classes, again.shape) == (model.history, model.classes, model.shape)
    assert again.guarantee("server") == model.result.guarantee("server")
    with pytest.raises(gradveil.BadInput, match="exists already"):
        model.save(place)


def test_a_run_without_a_folder_can_be_saved_and_leaves_nothing_behind(run, tmp_path):
    model = gradveil.train(run[0].plan)
    folder, place = model.folder, model.save(tmp_path / "kept")
    assert folder.exists()
    assert gradveil.load(place).result.params_sha256 == run[0].result.params_sha256
    del model
    assert not folder.parent.exists()


def test_a_page_is_written_where_one_wants_it(run, tmp_path):
    assert "<html" in run[0].report(tmp_path / "page.html").read_text()
    assert run[0].report() == run[0].folder / "report.html"


def test_parameters_are_exported_by_name_and_read_back_to_the_bit(run, tmp_path):
    model = run[0]
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(model.params)]
    with np.load(model.export(tmp_path / "p.npz")) as arrays:
        assert list(arrays) == [str(i) for i in range(len(leaves))]
        assert all(np.array_equal(arrays[str(i)], leaf) for i, leaf in enumerate(leaves))
    content = model.export(tmp_path / "p.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    assert length % 8 == 0
    assert header.pop("__metadata__")["params_sha256"] == model.result.params_sha256
    for i, leaf in enumerate(leaves):
        entry = header.pop(str(i))
        assert (entry["dtype"], entry["shape"]) == ("F32", list(leaf.shape))
        start, stop = entry["data_offsets"]
        assert numbers[start:stop] == leaf.astype("<f4").tobytes()
    assert header == {}
    assert stop == len(numbers)


def test_the_library_of_safetensors_reads_what_is_exported(run, tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    loaded = library.load_file(run[0].export(tmp_path / "p.safetensors"))
    assert np.array_equal(loaded["0"], np.asarray(jax.tree.leaves(run[0].params)[0]))


def called(model, module, dtype):
    """The function of a StableHLO file: an empty function of the same signature, with the program of the file."""
    (n,) = jax_export.symbolic_shape("n")
    kind, classes = jax.ShapeDtypeStruct((n, *model.shape), dtype), len(model.classes)
    empty = jax_export.export(jax.jit(lambda x: jax.numpy.zeros((x.shape[0], classes))))(kind)
    return dataclasses.replace(empty, mlir_module_serialized=module).call


def test_the_exported_function_gives_the_same_logits_for_any_number_of_examples(run, data, tmp_path):
    model = run[0]
    function = called(model, model.export(tmp_path / "f.stablehlo").read_bytes(), np.float32)
    for count in (1, 3):
        computed = np.asarray(function(data.test.x[:count]))
        np.testing.assert_allclose(computed, one_by_one(model, data.test.x[:count]), rtol=1e-4, atol=1e-5)


def test_an_exported_function_of_pixels_divides_them(run):
    model = run[0]
    pixels = dataclasses.replace(model.encoding, pixels=True)
    x = np.arange(2 * np.prod(model.shape)).reshape(2, *model.shape).astype(np.uint8)
    computed = called(model, exporting.stablehlo(model.plan, model.params, pixels), np.uint8)(x)
    np.testing.assert_allclose(computed, one_by_one(model, x / np.float32(255)), rtol=1e-4, atol=1e-5)


def test_a_model_on_features_takes_examples_as_they_are(data, tmp_path):
    features = Features(table=TableBlock(norm=3.0), map=RandomMap(k=8))
    model = gradveil.train(gradveil.plan("synthetic", "non-private", **SMALL, features=features), tmp_path / "run")
    again = gradveil.load(tmp_path / "run")
    assert model.shape == again.shape == data.shape
    assert again.evaluate(data.test.x, data.test.y).accuracy == model.result.accuracy
    function = called(model, model.export(tmp_path / "f.stablehlo").read_bytes(), np.float32)
    np.testing.assert_allclose(function(data.test.x[:3]), again.scores(data.test.x[:3]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["p.onnx", "p"])
def test_an_unknown_ending_is_refused(run, tmp_path, name):
    with pytest.raises(gradveil.BadInput, match=r"must end in \.npz, \.safetensors, \.stablehlo"):
        run[0].export(tmp_path / name)


def test_it_shows_itself_in_a_line_and_in_a_notebook(run):
    model = run[0]
    assert f"accuracy {model.result.accuracy:.3f}" in repr(model)
    assert f"epsilon {model.guarantee().epsilon:.3g}" in repr(model)
    assert len(repr(model)) < 300
    assert len(repr(model.result)) < 200
    data = gradveil.dataset("synthetic")
    assert repr(data).startswith(f"Dataset(synthetic: {len(data.train)} to train on, {len(data.test)} to test on")
    assert len(repr(data)) < 120
    tree = ET.fromstring(model._repr_html_().replace("<br>", "<br/>"))
    assert len(tree.find(".//polyline").get("points").split()) == model.result.rounds
    assert notebook.curve([0.5]) == ""
    drawn = ET.fromstring(notebook.curve([0.0, 1.0]).removeprefix("<br>"))[1].get("points")
    assert drawn == "0.0,48.0 240.0,0.0"  # higher is better, and y runs down in SVG


def test_pixels_are_bytes_or_shares_and_nothing_between():
    pixels = store.EncodingRecord(shape=(2,), pixels=True, data="", table=None)
    x = np.array([[0, 128], [255, 1]])
    assert stored(pixels, x).dtype == np.uint8
    assert stored(pixels, x).tolist() == x.tolist()
    shares = stored(pixels, x / 255)
    assert (shares.dtype, shares[0, 1]) == (np.float32, np.float32(128 / 255))
    for wrong in (x.astype(np.float32), x - 1, x + 1):
        with pytest.raises(gradveil.BadInput, match="pixels are whole numbers from 0 to 255"):
            stored(pixels, wrong)
    plain = stored(dataclasses.replace(pixels, pixels=False), x.astype(np.uint8))
    assert (plain.dtype, plain.tolist()) == (np.float32, x.tolist())


@pytest.mark.parametrize("x", [[[1.0, 2.0]], "text", [[1], [2, 3]], np.full((1, 4), np.nan)])
def test_examples_of_another_kind_are_refused(run, x):
    with pytest.raises(gradveil.BadInput, match="x"):
        run[0].predict(x)
