"""Records under version control: found without the cache and without the data, refused by line, marked by code."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import gradveil
from gradveil.data import sources
from gradveil.errors import BadInput
from gradveil.methods import NON_PRIVATE
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.committed import CommittedRecords, code_digest, recorded_facts
from gradveil.reproduction.driver import Driver
from gradveil.reproduction.executor import Executor
from gradveil.reproduction.job_cache import JobCache, record_of
from gradveil.reproduction.jobs import SizeJob, TimingJob, TrainingJob, seeded
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.stand_ins import stand_in

SMOKE = SCALES["smoke"]
SIZE = SizeJob("cancer", "classes")


def nothing(name):
    raise BadInput(f"the dataset {name} was not found anywhere")


def executor(folder, data=sources.load, commits=True, cache="cache"):
    cached = JobCache(folder / cache)
    cached.open()
    return Executor(cached, data, committed=CommittedRecords(folder / "records"), commits=commits)


def test_a_record_is_found_with_neither_cache_nor_data(tmp_path):
    made = executor(tmp_path).run(SIZE)
    assert executor(tmp_path, nothing, cache="another").cached(SIZE) == made


def test_only_what_is_asked_to_be_is_committed_and_no_stand_in_ever(tmp_path):
    executor(tmp_path, commits=False).run(SIZE)
    executor(tmp_path, stand_in, cache="of stand-ins").run(SIZE)
    assert not (tmp_path / "records").exists()


def test_a_timing_is_not_committed(tmp_path):
    executor(tmp_path).run(TimingJob(SMOKE.plan("cancer", NON_PRIVATE)))
    assert not (tmp_path / "records").exists()


def test_every_recorded_seed_fills_a_cell_when_nothing_is_run(tmp_path):
    job = TrainingJob(SMOKE.plan("cancer", NON_PRIVATE))
    for seed in (0, 2, 4):
        executor(tmp_path).run(seeded(job, seed))
    cell = Cell(row=("r",), column=("c",), published="0.9", job=job, measure="accuracy")
    late = Driver(executor(tmp_path, nothing, cache="another"), replace(SMOKE, minutes=0.0))
    (filled,) = late.fill(Table("t", "a table", (cell,), 1.0))
    assert filled.measurement.n == 3
    assert late.lacking == {}


def test_jobs_of_other_datasets_are_shown_and_not_run(tmp_path):
    driver = Driver(executor(tmp_path), SMOKE, datasets=("adult",))
    (filled,) = driver.fill(
        Table("t", "a table", (Cell(row=("r",), column=("c",), published="2", job=SIZE, measure="value"),), 1.0)
    )
    assert (filled.measurement, filled.reason) == (None, "time")


def test_an_attack_keeps_what_cells_read_and_little_more(tmp_path):
    job = replace(SMOKE.attack_job("cancer", NON_PRIVATE, 2), identify=True)
    working = executor(tmp_path)
    made = working.run(job)
    line = json.loads((tmp_path / "records" / "cancer.jsonl").read_text())
    assert record_of(job, line["record"]) == made
    assert set(line["record"]) == {"per_victim", "candidates", "verdict"}
    assert len(json.dumps(line)) < 2000


@pytest.mark.parametrize(("line", "why"), [("{", "is not JSON"), ('{"key": "a"}', "about"), ("[]", "object")])
def test_a_line_that_is_no_record_is_refused_by_its_number(tmp_path, line, why):
    executor(tmp_path).run(SIZE)
    path = tmp_path / "records" / "cancer.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BadInput) as refusal:
        executor(tmp_path, cache="another").cached(SIZE)
    assert f"{str(path)!r}, line 2" in str(refusal.value)
    assert why in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_change_of_what_decides_results_marks_older_records(tmp_path):
    package = tmp_path / "gradveil"
    shutil.copytree(Path(gradveil.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert code_digest(package) == code_digest()
    (package / "cli" / "main.py").write_text("")
    assert code_digest(package) == code_digest()
    (package / "privacy" / "clip.py").write_text("")
    assert code_digest(package) != code_digest()


def test_the_page_says_how_many_records_there_are_and_of_which_code(tmp_path):
    executor(tmp_path).run(SIZE)
    facts = recorded_facts(CommittedRecords(tmp_path / "records"), ["cancer", "adult"])
    assert facts["records"].startswith("1 jobs, the newest of 20")
    assert facts["code"] == f"{code_digest()} (1 records)"
