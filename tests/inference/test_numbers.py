"""A number to predict, from a table or arrays to predictions in its own units: RMSE in place of accuracy."""

import csv
import dataclasses
import json

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import gradveil
from gradveil.cli.main import main
from gradveil.data.schema_text import read_schema
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.ledger import releases
from gradveil.keys import Keys

SCHEMA = """
public = true

[target]
kind = "number"
name = "cost"
low = 0.0
high = 500.0

[[columns]]
kind = "number"
name = "age"
low = 0.0
high = 100.0

[[columns]]
kind = "category"
name = "sex"
levels = ["f", "m"]
"""


def _rows(n=240):
    rng = np.random.default_rng(0)
    age, sex = rng.integers(20, 90, n), rng.integers(0, 2, n)
    return age, sex, 80 + 3 * age + 40 * sex + rng.normal(0, 3, n)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    with (folder / "costs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "sex", "cost"])
        writer.writerows([a, "fm"[s], round(c, 2)] for a, s, c in zip(*_rows(), strict=True))
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


@pytest.fixture(scope="module")
def run(files):
    plan = gradveil.plan(
        files / "costs.csv", "non-private", schema=files / "schema.toml", rounds=80, lr=0.2, noise_source="seeded"
    )
    gradveil.train(plan, files / "run", report=True)
    return files / "run"


def test_a_table_with_a_number_is_learned_and_the_result_has_its_rmse_in_the_units_of_the_target(run):
    model = gradveil.load(run)
    result = model.result
    assert result.accuracy is result.accuracy_interval is result.majority_baseline is None
    assert result.rmse < 0.35 * result.mean_baseline
    assert result.rmse == model.history[-1].rmse
    age, sex, cost = _rows()
    assert result.mean_baseline == pytest.approx(np.std(cost), rel=0.25)
    x = np.stack([age / 50 - 1, sex == 0, sex == 1], axis=1).astype(np.float32)
    assert np.sqrt(np.mean((model.predict(x) - cost) ** 2)) == pytest.approx(model.evaluate(x, cost).rmse)
    assert model.evaluate(x, cost).rmse == pytest.approx(result.rmse, rel=0.4)
    assert "RMSE" in repr(model)
    assert "RMSE" in model._repr_html_()


def test_the_page_and_the_card_say_rmse(run):
    assert "RMSE" in (run / "report.html").read_text()
    card = json.loads((run / "privacy_card.json").read_text())
    assert card["run"]["accuracy"] is None
    assert card["run"]["rmse"] == gradveil.load(run).result.rmse


def test_predictions_of_a_file_are_numbers(run, files, capsys):
    assert main(["predict", str(run), str(files / "costs.csv"), "--out", str(files / "p.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 240
    head, *rows = (files / "p.csv").read_text().split()
    assert head == "prediction"
    assert np.mean(np.abs(np.array(rows, float) - _rows()[2])) < 60


def test_the_guarantee_needs_no_caveat_about_the_data_and_is_that_of_classes(files):
    """Squared errors are clipped example by example, so the same sigma releases the same."""
    options = {"rounds": 3, "clients": 3, "cohort": 3, "sigma": 2.0}  # who takes part is drawn in secret
    number = gradveil.plan(files / "costs.csv", schema=files / "schema.toml", **options)
    data = gradveil.dataset(files / "costs.csv", schema=read_schema(files / "schema.toml"))
    assert data.caveats == ()
    model = gradveil.train(number)
    assert not [c for c in model.guarantee().caveats if "records themselves" in c]
    assert releases(number, 0, 2, 1)[0].ratio == 1.0
    x, y = data.train.x, (data.train.y > 0).astype(int)
    classes = gradveil.Dataset.of(x, y, test=(x, y), classes=("low", "high"))
    same = gradveil.train(gradveil.plan(classes, batch=number.batch, **options), data=classes)
    assert same.guarantee().epsilon == model.guarantee().epsilon


def test_a_huge_error_moves_the_model_no_farther_than_the_clip():
    """All rows are 1000 and far from what they should be; each client moves by the clipped mean."""
    x, y = np.full((40, 2), 1000, np.float32), np.full(40, 1e6)
    data = gradveil.Dataset.of(x, y, test=(x, y), target_range=(-1e6, 1e6))
    plan = gradveil.plan(data, "fed-cdp", rounds=1, clients=2, sampling="whole", sigma=1e-7, clip="flat:0.01", lr=1.0)
    start = server.init(plan, (2,), 1, Keys.of(plan.seed, secret=False)).params
    end = gradveil.train(plan, data=data).params
    assert np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(end, start, strict=True))) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.slow
def test_a_target_epsilon_learns_a_number_with_the_method_of_sums():
    age, sex, cost = _rows(6000)
    x = np.stack([age / 50 - 1, sex == 0, sex == 1], axis=1).astype(np.float32)
    data = gradveil.Dataset.of(x, cost, target_range=(0, 500))
    plan = gradveil.plan(data, "fed-sum", target_epsilon=1.0, threat_model="aggregate", noise_source="seeded")
    result = gradveil.train(plan, data=data).result
    assert result.rmse < 0.8 * result.mean_baseline


def test_what_is_about_classes_is_refused(files, run):
    data = gradveil.dataset(files / "costs.csv", schema=read_schema(files / "schema.toml"))
    with pytest.raises(BadInput, match="has a number to predict, and attacks"):
        gradveil.attack(run)
    with pytest.raises(BadInput, match="predict_proba: this model predicts a number"):
        gradveil.load(run).predict_proba(data.test.x)
    with pytest.raises(BadInput, match="target_accuracy: a number is predicted"):
        gradveil.train(gradveil.plan(data, rounds=1, target_accuracy=0.9), data=data)
    with pytest.raises(BadInput, match="the first below the other"):
        gradveil.Dataset.of(data.train.x, data.train.y, target_range=(1, 0))
    with pytest.raises(BadInput, match="a finite number for each"):
        gradveil.Dataset.of(np.ones((10, 2)), ["a"] * 10, target_range=(0, 1))


def test_a_table_is_shown_and_drafted_as_one_with_a_number(files, capsys):
    assert main(["data", "show", str(files / "costs.csv"), "--target", "cost"]) == 0
    assert "target cost: a number from" in " ".join(capsys.readouterr().out.split())
    assert main(["data", "schema", str(files / "costs.csv"), "--target", "cost"]) == 0
    assert 'kind = "number"' in capsys.readouterr().out
    assert main(["run", "--dataset", str(files / "costs.csv"), "--target", "cost", "--dry-run"]) == 2
    assert "predicts a number too" in " ".join(capsys.readouterr().err.split())


def _arrays(n=200):
    rng = np.random.default_rng(4)
    x = rng.uniform(-0.5, 0.5, (n, 3)).astype(np.float32)
    return x, 100 + 60 * x[:, 0] - 30 * x[:, 1]


def test_a_run_stops_at_a_target_rmse_in_the_units_of_the_target_and_all_its_rounds_are_counted():
    x, y = _arrays()
    data = gradveil.Dataset.of(x, y, target_range=(0, 200), validation=0.2)
    options = {"rounds": 40, "noise_source": "seeded", "clients": 4}
    free = gradveil.train(gradveil.plan(data, "non-private", **options), data=data)
    target = free.history[9].rmse
    model = gradveil.train(gradveil.plan(data, "non-private", target_rmse=target, **options), data=data)
    last = model.history[-1]
    held = model.evaluate(data.validation.x, 100 + 100 * data.validation.y.astype(float))
    assert model.result.stopped_because == "target-rmse"
    assert model.result.rounds < 40 == model.result.rounds_counted
    assert last.stop_rmse <= target < min(line.stop_rmse for line in model.history[:-1])
    assert last.stop_rmse == pytest.approx(held.rmse, rel=1e-4)
    assert free.history[9].stop_rmse is None
    assert any("all 40 rounds that it might have trained" in caveat for caveat in model.guarantee("server").caveats)


def test_a_target_of_the_other_kind_is_refused():
    x, y = _arrays()
    data = gradveil.Dataset.of(x, y, target_range=(0, 200))
    classes = gradveil.Dataset.of(x, (y > 100).astype(int))
    for given, changes, said in (
        (data, {"target_accuracy": 0.5}, "use target_rmse"),
        (classes, {"target_rmse": 0.5}, "use target_accuracy"),
    ):
        plan = gradveil.plan(given, "non-private", rounds=1, clients=4, **changes)
        with pytest.raises(BadInput, match=said):
            gradveil.train(plan, data=given)
    for rmse in (0, -1.0, float("inf")):
        with pytest.raises(BadInput, match="target_rmse"):
            gradveil.plan(data, "non-private", target_rmse=rmse)


def _linear():
    return lambda key, shape, classes: jnp.ones(shape), lambda params, x: jnp.sum(params * x)


@pytest.mark.parametrize("own", [False, True], ids=["ours", "a pair with one output"])
def test_an_exported_function_gives_the_predictions_in_the_units_of_the_target(tmp_path, own):
    x, y = _arrays()
    data = gradveil.Dataset.of(x, y, target_range=(0, 200))
    changes = {"model": _linear()} if own else {}
    model = gradveil.train(gradveil.plan(data, "non-private", rounds=2, clients=4, **changes), data=data)
    exporting = jax.export.export(jax.jit(lambda x: jnp.zeros(x.shape[0])), platforms=("cpu",))
    blank = exporting(jax.ShapeDtypeStruct((*jax.export.symbolic_shape("n"), 3), np.float32))
    content = model.export(tmp_path / "f.stablehlo").read_bytes()
    function = dataclasses.replace(blank, mlir_module_serialized=content).call
    np.testing.assert_allclose(function(x[:5]), model.predict(x[:5]), rtol=1e-5)
    assert model.scores(x).shape == (200, 1)
