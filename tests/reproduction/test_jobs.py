"""What names a job and what is stored of it: records of version 0.1 are found and read, or refused in one sentence."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import gradveil
from gradveil import codec
from gradveil.attacks.zoo import ATTACKS
from gradveil.errors import BadInput
from gradveil.methods import NON_PRIVATE
from gradveil.reproduction.executor import Executor
from gradveil.reproduction.job_cache import AttackScores, JobCache, TimingRecord, TrainingRecord, ValueRecord
from gradveil.reproduction.jobs import SizeJob, TimingJob, TrainingJob, key_of
from gradveil.reproduction.measures import measured
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.stand_ins import stand_in
from gradveil.reproduction.table_names import lay_out

DESK = SCALES["desk"]
TRAINING = TrainingJob(DESK.plan("cancer", NON_PRIVATE))
ATTACK = DESK.attack_job("cancer", NON_PRIVATE, 2)
PROVENANCE = {"made": "2026-01-01", "by": {"gradveil": "0.1.0", "jax": "0.10.2"}}
GUARANTEE = {
    "epsilon": None, "finite": False, "delta": 1e-05, "unit": "example", "threat_model": "server",
    "adjacency": "add-remove", "sampling": "fixed-pass batches", "accountant": "pld", "noise_source": "seeded",
    "caveats": ["one"],
}  # fmt: skip
FINISHED = {
    "accuracy": 0.9, "held_out": None, "accuracy_error": 0.03, "majority": 0.6, "rounds": 2, "seconds": 0.5,
    "learning_rate": 0.03, "curve": [0.8, 0.9], "sensitivity": [4.0, None], "plan_sha256": "ab", "diverged": False,
    "guarantees": [GUARANTEE],
}  # fmt: skip
DIVERGED = {
    "accuracy": None, "held_out": None, "rounds": 1, "learning_rate": 0.03, "curve": [0.8], "guarantees": [],
    "diverged": True,
}  # fmt: skip


@pytest.fixture
def cache(tmp_path):
    cache = JobCache(tmp_path)
    cache.open()
    return cache


@pytest.mark.parametrize(
    ("scale", "table", "cell", "key"),
    [
        ("desk", "population", 0, "a636dfc61b73eabf99c2ff8a"),
        ("desk", "noise-scale", 0, "3ca5e838a465a8f2b0ea0248"),
        ("desk", "time-cost", 0, "33e829bbee7561f32911eeec"),
        ("desk", "datasets", 0, "18ff484e53c56e6c09f554ea"),
        ("paper", "privacy-fixed-rounds", -1, "eb8a4d3202f5d5f8929e5f39"),
    ],
)
def test_a_job_has_the_key_that_version_0_1_stored_it_under(scale, table, cell, key):
    assert key_of(lay_out(table, SCALES[scale]).cells[cell].job, "d") == key


def test_an_attack_is_hashed_under_the_names_of_version_0_1_and_with_its_parts():
    plain = codec.encode(ATTACK)
    fields = {("beside" if name == "identify" else name): value for name, value in plain.items()}
    what = [1, "Attacked", fields, "d", repr(ATTACKS["cpl"].value)]
    text = json.dumps(what, sort_keys=True, separators=(",", ":"))
    assert "beside" in fields
    assert key_of(ATTACK, "d") == hashlib.sha256(text.encode()).hexdigest()[:24]


def test_records_of_version_0_1_are_read(cache):
    cache.write("a", FINISHED | {"search": [[0.03, 0.5], [0.1, 0.4]], "search_rounds": 2} | PROVENANCE)
    record = cache.read(TRAINING, "a")
    assert isinstance(record, TrainingRecord)
    assert (record.curve, record.search, record.sensitivity) == ((0.8, 0.9), ((0.03, 0.5), (0.1, 0.4)), (4.0, None))
    assert measured("accuracy", [record]).guarantee == "no finite epsilon for one example against server"
    cache.write("b", DIVERGED | PROVENANCE)
    assert measured("accuracy", [cache.read(TRAINING, "b")]).value == "diverged"
    cache.write("c", {"per_victim": [], "success_rate": None, "candidates": []} | PROVENANCE)
    assert cache.read(ATTACK, "c") == AttackScores(victims=(), of_ten=None)
    victim = {
        "success": True,
        "rmse": 0.1,
        "rmse_unclamped": 0.2,
        "iterations": 3,
        "gain": 0.4,
        "ssim": None,
        "client": 7,
    }
    picked = [{"n": n, "success": rate, "bound": None} for n, rate in ((10, 0.5), (100, 0.25))]
    cache.write("f", {"attack": "cpl", "per_victim": [victim] * 2, "success_rate": 1.0, "candidates": picked})
    scores = cache.read(ATTACK, "f")
    assert [measured(name, [scores]).value for name in ("gain", "which of 10", "success")] == [0.4, 0.5, 1.0]
    cache.write("d", {"seconds": 0.25} | PROVENANCE)
    assert cache.read(TimingJob(TRAINING.plan), "d") == TimingRecord(0.25)
    cache.write("e", {"value": "28*28"} | PROVENANCE)
    assert cache.read(SizeJob("mnist", "features"), "e") == ValueRecord("28*28")
    assert cache.read(TRAINING, "nothing") is None


@pytest.mark.parametrize(
    ("job", "stored", "says"),
    [
        (TRAINING, {key: value for key, value in FINISHED.items() if key != "curve"}, "curve: this key is missing"),
        (TRAINING, FINISHED | {"accuracy": "high"}, "accuracy = 'high': a number is expected"),
        (TRAINING, FINISHED | {"color": 1}, "color: unknown key"),
        (ATTACK, {"candidates": []}, ": this is no record of an attack ('per_victim')"),
        (ATTACK, {"candidates": [], "per_victim": [{"success": True}]}, "is no record of an attack ('rmse')"),
        (SizeJob("mnist", "features"), {"value": None}, "value = None: a text is expected"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_in_one_sentence_that_names_the_file(cache, job, stored, says):
    cache.write("a", stored)
    with pytest.raises(BadInput) as refusal:
        cache.read(job, "a")
    assert says in str(refusal.value)
    assert str(cache.folder / "records" / "a.json") in str(refusal.value)
    assert "delete this file" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_stored_file_that_is_no_json_is_refused_by_its_name(cache):
    path = cache.folder / "records" / "a.json"
    path.write_text("{")
    with pytest.raises(BadInput) as refusal:
        cache.read(TRAINING, "a")
    assert str(refusal.value).startswith(f"{str(path)!r}: is not JSON")


def test_a_fresh_record_and_the_same_one_from_the_cache_are_equal(cache):
    executor = Executor(cache, stand_in)
    for job in (TrainingJob(SCALES["smoke"].plan("cancer", NON_PRIVATE)), SizeJob("adult", "features")):
        assert executor.run(job) == executor.cached(job) == Executor(cache, stand_in).run(job)


def test_the_names_of_tables_are_known_without_importing_anything_heavy():
    path = Path(gradveil.__file__).parent / "reproduction" / "table_names.py"
    code = (
        "import runpy, sys\n"
        f"names = runpy.run_path({str(path)!r})['TABLES']\n"
        "print(len(names), sorted({'jax', 'numpy', 'scipy', 'gradveil'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "17 []"
