"""Filling tables: each work once, missing data named and worked around, time kept, seeds spread."""

from dataclasses import replace

import pytest

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.methods import METHODS, NON_PRIVATE
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.driver import Driver, cached_at_paper_scale, cut_short
from gradveil.reproduction.executor import Executor
from gradveil.reproduction.job_cache import AttackScores, CachedVictim, JobCache, TrainingRecord, ValueRecord
from gradveil.reproduction.jobs import SettingJob, SizeJob, TimingJob, TrainingJob, seeded
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.stand_ins import SHAPES, stand_in
from gradveil.reproduction.table_names import lay_out
from gradveil.surface import Surface

SMOKE = SCALES["smoke"]


def cell(job, measure="value", published="1", **more):
    return Cell(row=(repr(job)[:40], measure), column=("c",), published=published, job=job, measure=measure, **more)


def table(*cells, minutes=1.0):
    return Table("t", "a table", cells, minutes)


def data(name):
    if name == "lfw":
        raise BadInput("the dataset lfw was not found anywhere")
    return stand_in(name)


@pytest.fixture
def cache(tmp_path):
    cache = JobCache(tmp_path / "cache")
    cache.open()
    return cache


def driver(cache, **more):
    return Driver(Executor(cache, data), SMOKE, **more)


def test_missing_data_leaves_its_cells_open_and_the_rest_filled(cache):
    working = driver(cache)
    lfw, cancer, batch = working.fill(
        table(
            cell(SizeJob("lfw", "classes")),
            cell(SizeJob("cancer", "classes")),
            cell(SettingJob("lfw", "batch"), published="3", exact=True),
        )
    )
    assert (lfw.measurement, lfw.reason) == (None, "data")
    assert cancer.measurement.value == 2
    assert cancer.reason == "stand-in"
    assert batch.agreement.value == "agrees"
    assert working.lacking == {"lfw": "the dataset lfw was not found anywhere"}


def test_bad_input_that_is_not_about_data_is_not_swallowed(cache):
    broken = TrainingJob(replace(SMOKE.plan("cancer", NON_PRIVATE), max_epsilon=1.0))
    with pytest.raises(BadInput, match="max_epsilon"):
        driver(cache).fill(table(cell(broken, "accuracy")))


def test_a_job_that_cells_share_is_done_once(cache):
    job = TrainingJob(SMOKE.plan("cancer", NON_PRIVATE))
    notes = []
    working = Driver(Executor(cache, data, notes.append), SMOKE)
    first, second = working.fill(table(cell(job, "accuracy"), cell(job, "rounds")))
    assert len(notes) == 1
    assert second.measurement.value == 1
    assert (
        first.measurement.value
        == Driver(Executor(cache, data), SMOKE).fill(table(cell(job, "accuracy")))[0].measurement.value
    )
    assert len(list((cache.folder / "records").iterdir())) == 1


def test_what_is_in_the_cache_is_not_done_again(cache):
    job = SizeJob("cancer", "classes")
    executor = driver(cache).executor
    cache.write(executor.key(job), {"value": 7})
    assert executor.run(job) == ValueRecord(7)


def test_seeds_are_repeats_with_a_spread(cache):
    job = TrainingJob(SMOKE.plan("mnist", NON_PRIVATE))
    (filled,) = driver(cache, seeds=3).fill(table(cell(job, "accuracy")))
    assert filled.measurement.n == 3
    assert filled.measurement.spread > 0
    (once,) = driver(cache, seeds=3).fill(table(cell(SettingJob("adult", "batch"))))
    assert once.measurement.n == 1


def test_once_the_minutes_are_spent_only_what_is_in_the_cache_is_shown(cache):
    known, other = (SizeJob(name, "classes") for name in ("cancer", "adult"))
    driver(cache).fill(table(cell(known)))
    moments = iter([0.0, 0.0, 61.0, 62.0])
    late = Driver(Executor(cache, data), replace(SMOKE, minutes=5.0), clock=lambda: next(moments))
    first, second, third = late.fill(table(cell(SettingJob("mnist", "batch")), cell(known), cell(other)))
    assert first.reason != "time"
    assert second.measurement.value == 2
    assert third.reason == "time"


def test_only_what_is_in_the_cache_is_taken_from_it(cache):
    known, other = (SizeJob(name, "classes") for name in ("cancer", "adult"))
    driver(cache).fill(table(cell(known)))
    (taken,) = driver(cache).cached(table(cell(other), cell(known)))
    assert taken.measurement.value == 2
    assert len(list((cache.folder / "records").iterdir())) == 1


def attacked(*hits):
    scores = {"rmse": 0.1, "rmse_unclamped": 0.1, "iterations": 3, "gain": 0.1}
    return AttackScores(victims=tuple(CachedVictim(success=hit, **scores) for hit in hits), of_ten=None)


def test_an_attack_cut_short_is_not_compared_unless_everyone_was_recovered():
    job = SCALES["desk"].attack_job("mnist", NON_PRIVATE, 2)
    assert cut_short(job, [attacked(True, False)], "success")
    assert cut_short(job, [attacked(True), attacked()], "success")  # nobody was attacked, so nobody recovered
    assert not cut_short(job, [attacked(True, True)], "success")
    assert cut_short(job, [attacked(True, True)], "rmse")  # the error may still fall
    assert not cut_short(SCALES["paper"].attack_job("mnist", NON_PRIVATE, 2), [attacked(False)], "rmse")


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.value.name)
def test_one_attack_answers_for_client_and_server_unless_the_server_adds_the_noise(method):
    at = [SCALES["desk"].attack_job("mnist", method.value, surface) for surface in range(3)]
    assert (at[0] == at[1]) == (method.value.surface is not Surface.SERVER)
    assert at[1] != at[2]


def test_a_step_takes_some_time(cache):
    (filled,) = driver(cache).fill(table(cell(TimingJob(SMOKE.plan("cancer", NON_PRIVATE)), "seconds")))
    assert 0 < filled.measurement.value < 10


@pytest.mark.parametrize("name", SHAPES)
def test_a_stand_in_has_the_shape_of_what_it_stands_for_and_says_so(name):
    made = stand_in(name)
    assert (made.shape, len(made.classes)) == SHAPES[name]
    assert made.name == f"stand-in for {name}"
    assert made.digest() == stand_in(name).digest()


def test_what_was_trained_at_paper_scale_is_taken_from_the_cache_and_nothing_is_run(cache):
    def only_cancer(name):
        return stand_in(name) if name == "cancer" else data("lfw")

    notes = []
    (cache.folder / "runs").touch()  # a file where run folders would be made: whatever is trained fails at once
    executor = Executor(cache, only_cancer, notes.append)
    (_, nothing) = cached_at_paper_scale(executor, 3)
    jobs = {c.row: c.job for c in lay_out("noise-scale", SCALES["paper"]).cells if c.row[0] == "cancer, sigma = 0.5"}
    for seed, accuracy in enumerate((0.9, 0.92, 0.94)):
        record = TrainingRecord(
            accuracy=accuracy, held_out=None, rounds=3, learning_rate=0.03, curve=(0.5, 0.8, accuracy), diverged=False,
            accuracy_error=0.02,
        )  # fmt: skip
        job = seeded(jobs["cancer, sigma = 0.5", "fed-cdp"], seed)
        cache.write(executor.key(job), codec.record(record))
    table, (filled,) = cached_at_paper_scale(executor, 3)
    assert nothing == []
    assert table.name == "noise-scale"
    assert filled.cell.row == ("cancer, sigma = 0.5", "fed-cdp")
    assert (filled.measurement.value, filled.measurement.n) == (pytest.approx(0.92), 3)
    assert notes == []
    assert len(list((cache.folder / "records").iterdir())) == 3
