"""What runs and attacks write down: typed, as their schemas say, and refused in one sentence where it is not."""

import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest
from jsonschema import Draft202012Validator

import gradveil
from gradveil import codec
from gradveil.cli.main import main
from gradveil.leakage.attack_record import AttackRecord
from gradveil.runs import store
from gradveil.runs.epsilon_records import NoPaperAccount, PaperAccount
from gradveil.runs.run_records import RoundLine, RunResult
from gradveil.runs.store import files
from gradveil.schema import schema_text

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
RECORDS = {"round-line": RoundLine, "run-result": RunResult, "attack-record": AttackRecord}
KEYS = {
    "round-line": (
        "round accuracy loss stop_accuracy sigma sensitivity clip unit_norm clipped_share equivalent_sigma cohort "
        "max_participations spent rounds_left norm_quantiles state_sha256 seconds chain"
    ),
    "run-result": (
        "dataset method accuracy accuracy_interval loss majority_baseline test_examples rounds rounds_counted "
        "earlier_rounds stopped_because run_dir seconds seed noise_source draw copies max_participations plan_sha256 "
        "data_sha256 params_sha256 metrics_head suggested_clip guarantees presumed as_the_paper_accounts "
        "epsilon_over_rounds"
    ),
    "attack-record": (
        "dataset method attack surface view setting network round batch local_steps readings told_labels sigma rule "
        "rule_meaning seed victims settings settings_sha256 success_rate mean_rmse mean_mse mean_rmse_unclamped "
        "mean_psnr mean_ssim prior_rmse class_mean_rmse gain gain_ci verdict resilient "
        "resilient_by_the_papers_rule mean_iterations mean_evaluations label_accuracy label_prior identification "
        "feature_accuracy feature_baseline diverged not_fitted per_victim labels candidates seconds cohort"
    ),
}
"""The keys of each file, in their order: other programs read them, so they stay."""


@pytest.fixture(scope="module")
def runs(attacked_runs, small, tmp_path_factory):
    """Runs with and without a guarantee, one of them attacked."""
    root = tmp_path_factory.mktemp("runs")
    shutil.copytree(attacked_runs / "one", root / "kept")
    flags = [part for key, value in (small | {"method": "non-private"}).items() for part in (f"--{key}", value)]
    assert main(["run", *flags, "--json", "--out", str(root / "bare")]) == 0
    return root


def written(root, name):
    """Give every record of a kind as the files of the runs hold it."""
    if name == "round-line":
        return [json.loads(line) for path in root.glob("*/metrics.jsonl") for line in path.read_text().splitlines()]
    paths = root.glob("*/result.json" if name == "run-result" else "*/attacks/*.json")
    return [{k: v for k, v in json.loads(path.read_text()).items() if k != files.SEAL} for path in sorted(paths)]


@pytest.mark.parametrize("name", RECORDS)
def test_the_schema_in_the_documents_is_that_of_the_record(name):
    assert (SCHEMAS / f"{name}.schema.json").read_text() == schema_text(RECORDS[name])


@pytest.mark.parametrize("name", RECORDS)
def test_files_hold_the_keys_of_the_contract_and_what_the_schema_says(runs, name):
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    found = written(runs, name)
    assert len(found) >= 2
    for one in found:
        assert [error.message for error in Draft202012Validator(schema).iter_errors(one)] == []
        assert list(one) == KEYS[name].split()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_read_and_written_again_is_the_same_text(runs, name):
    for one in written(runs, name):
        assert json.dumps(codec.decode(RECORDS[name], one).plain()) == json.dumps(one)


@pytest.mark.parametrize("name", RECORDS)
def test_a_missing_an_unknown_or_a_wrongly_typed_field_is_refused_by_its_name(runs, name):
    (one, *_), cls = written(runs, name), RECORDS[name]
    for field in fields(cls):
        kind = get_type_hints(cls)[field.name]
        wrong = {field.name: 5 if kind is str else "x" if kind not in (str, str | None) else ["x"]}
        with pytest.raises(gradveil.BadInput, match=rf"^{field.name}\b"):
            codec.decode(cls, one | wrong)
        if field.name in one:
            with pytest.raises(gradveil.BadInput, match=rf"^{field.name}: this key is missing"):
                codec.decode(cls, {key: value for key, value in one.items() if key != field.name})
    with pytest.raises(gradveil.BadInput, match="magic: unknown key"):
        codec.decode(cls, one | {"magic": 1})


def test_a_line_that_follows_by_its_digest_but_is_no_line_is_refused_in_a_sentence(runs, tmp_path):
    """A chain has no key: whoever edits a line can make it anew, and then its content must still be one of a round."""
    folder = tmp_path / "run"
    for path in (runs / "kept").glob("*.*"):
        files.write(folder / path.name, path.read_bytes())
    plan, path = store.read_plan(folder), folder / store.METRICS
    first = json.loads(path.read_text().splitlines()[0])
    for wrong in ({"accuracy": "0.9"}, {"spent": {"epsilon": 1}}, {"extra": 1}, {"cohort": 1.5}):
        head = files.digest(codec.record(store.read_data(folder)))
        line = first | wrong
        line[store.CHAIN] = store.history.link(head, plan, line)
        path.write_text(json.dumps(line) + "\n")
        with pytest.raises(gradveil.BadInput, match=rf"metrics\.jsonl', line 1: {next(iter(wrong))}"):
            store.read_history(folder, plan)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_finite_number_is_no_json(tmp_path, text):
    (tmp_path / "a.json").write_text(f'{{"accuracy": {text}}}')
    with pytest.raises(gradveil.BadInput, match=re.escape(f"{text} is no finite number")):
        store.read_json(tmp_path / "a.json")


def test_an_edited_attack_record_that_was_sealed_again_is_refused_in_a_sentence(runs, tmp_path, capsys):
    source = sorted((runs / "kept" / "attacks").glob("*.json"))[0]
    whole = files.read_sealed(source)
    for wrong in ({"gain": "much"}, {"surface": 7}, {"per_victim": [{}]}, {"candidates": [1]}):
        files.write_sealed(source, whole | wrong)
        try:
            assert main(["report", str(runs / "kept"), "--out", str(tmp_path / "page.html")]) == 2
            said = capsys.readouterr().err
            assert len(said.splitlines()) == 1
            assert source.name in said
            assert next(iter(wrong)) in said
        finally:
            files.write_sealed(source, whole)


def test_a_guarantee_that_is_called_finite_has_an_epsilon_and_no_other_has():
    held = {
        "epsilon": None, "finite": True, "delta": 1e-5, "unit": "example", "threat_model": "server",
        "adjacency": "add-remove", "sampling": "", "accountant": "pld", "noise_source": "seeded", "caveats": [],
    }  # fmt: skip
    hint = get_type_hints(RunResult)["guarantees"].__args__[0]
    for epsilon, finite in ((None, True), (1.0, False)):
        with pytest.raises(gradveil.BadInput, match="finite"):
            codec.decode(hint, held | {"epsilon": epsilon, "finite": finite})
    assert codec.decode(hint, held | {"finite": False}).plain() == held | {"finite": False}


def test_a_result_gives_its_guarantees_by_adversary_and_the_papers_figures_where_there_are_any(runs):
    kept, bare = (store.read_record(runs / name / store.RESULT, RunResult) for name in ("kept", "bare"))
    assert kept.guarantee("server").epsilon > 0
    assert bare.guarantee("server").epsilon is None
    with pytest.raises(gradveil.BadInput, match="threat_model = 'nobody': must be one of central"):
        kept.guarantee("nobody")
    assert isinstance(kept.as_the_paper_accounts, PaperAccount)
    assert bare.as_the_paper_accounts == NoPaperAccount()
    assert bare.plain()["as_the_paper_accounts"] == {}


def test_a_folder_of_0_1_is_refused_in_a_sentence(runs, tmp_path, capsys):
    folder = tmp_path / "old"
    files.write(folder / "plan.toml", (runs / "bare" / "plan.toml").read_bytes())
    files.write(folder / "metrics.jsonl", b'{"round": 0, "accuracy": 0.5}\n')
    files.write(folder / "data.json", json.dumps({"name": "synthetic", "sha256": "0" * 64}).encode())
    files.write(folder / "result.json", json.dumps({"accuracy": 0.5, "guarantees": []}).encode())
    for command in (["report", str(folder)], ["run", "--resume", "--out", str(folder)], ["attack", str(folder)]):
        assert main(command) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert "was written by gradveil 0.1" in said
    with pytest.raises(gradveil.BadInput, match=r"was written by gradveil 0\.1"):
        gradveil.load(folder)
