"""Filling tables: each work once, missing data named and worked around, time kept, seeds spread."""

from dataclasses import replace

import pytest

from gradveil.errors import BadInput
from gradveil.methods import METHODS, NON_PRIVATE
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.driver import Driver, cut_short
from gradveil.reproduction.job_cache import Shelf
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.stand_in import SHAPES, stand_in
from gradveil.reproduction.works import Setting, Size, Timed, Training
from gradveil.reproduction.workshop import Workshop
from gradveil.surface import Surface

SMOKE = SCALES["smoke"]


def cell(work, measure="value", published="1", **more):
    return Cell(row=(repr(work)[:40], measure), column=("c",), published=published, work=work, measure=measure, **more)


def table(*cells, minutes=1.0):
    return Table("t", "a table", cells, minutes)


def data(name):
    if name == "lfw":
        raise BadInput("the dataset lfw was not found anywhere")
    return stand_in(name)


@pytest.fixture
def shelf(tmp_path):
    shelf = Shelf(tmp_path / "shelf")
    shelf.open()
    return shelf


def driver(shelf, **more):
    return Driver(Workshop(shelf, data), SMOKE, **more)


def test_missing_data_leaves_its_cells_open_and_the_rest_filled(shelf):
    working = driver(shelf)
    lfw, cancer, batch = working.fill(
        table(
            cell(Size("lfw", "classes")),
            cell(Size("cancer", "classes")),
            cell(Setting("lfw", "batch"), published="3", exact=True),
        )
    )
    assert (lfw.answer, lfw.reason) == (None, "data")
    assert cancer.answer.value == 2
    assert cancer.reason == "stand-in"
    assert batch.verdict.value == "agrees"
    assert working.lacking == {"lfw": "the dataset lfw was not found anywhere"}


def test_bad_input_that_is_not_about_data_is_not_swallowed(shelf):
    broken = Training(replace(SMOKE.plan("cancer", NON_PRIVATE), max_epsilon=1.0))
    with pytest.raises(BadInput, match="max_epsilon"):
        driver(shelf).fill(table(cell(broken, "accuracy")))


def test_work_that_cells_share_is_done_once(shelf):
    work = Training(SMOKE.plan("cancer", NON_PRIVATE))
    told = []
    working = Driver(Workshop(shelf, data, told.append), SMOKE)
    first, second = working.fill(table(cell(work, "accuracy"), cell(work, "rounds")))
    assert len(told) == 1
    assert second.answer.value == 1
    assert (
        first.answer.value == Driver(Workshop(shelf, data), SMOKE).fill(table(cell(work, "accuracy")))[0].answer.value
    )
    assert len(list((shelf.folder / "records").iterdir())) == 1


def test_what_is_on_the_shelf_is_not_done_again(shelf):
    work = Size("cancer", "classes")
    workshop = driver(shelf).workshop
    shelf.keep(workshop.key(work), {"value": 7})
    assert workshop.do(work) == {"value": 7}


def test_seeds_are_repeats_with_a_spread(shelf):
    work = Training(SMOKE.plan("mnist", NON_PRIVATE))
    (filled,) = driver(shelf, seeds=3).fill(table(cell(work, "accuracy")))
    assert filled.answer.n == 3
    assert filled.answer.spread > 0
    (once,) = driver(shelf, seeds=3).fill(table(cell(Setting("adult", "batch"))))
    assert once.answer.n == 1


def test_once_the_minutes_are_spent_only_what_is_on_the_shelf_is_shown(shelf):
    known, other = (Size(name, "classes") for name in ("cancer", "adult"))
    driver(shelf).fill(table(cell(known)))
    moments = iter([0.0, 0.0, 61.0, 62.0])
    late = Driver(Workshop(shelf, data), replace(SMOKE, minutes=5.0), clock=lambda: next(moments))
    first, second, third = late.fill(table(cell(Setting("mnist", "batch")), cell(known), cell(other)))
    assert first.reason != "time"
    assert second.answer.value == 2
    assert third.reason == "time"


def test_only_what_is_on_the_shelf_is_taken_from_it(shelf):
    known, other = (Size(name, "classes") for name in ("cancer", "adult"))
    driver(shelf).fill(table(cell(known)))
    (taken,) = driver(shelf).shelved(table(cell(other), cell(known)))
    assert taken.answer.value == 2
    assert len(list((shelf.folder / "records").iterdir())) == 1


def test_an_attack_cut_short_is_not_compared_unless_everyone_was_recovered():
    work = SCALES["desk"].attacked("mnist", NON_PRIVATE, 2)
    assert cut_short(work, [{"success_rate": 0.9}], "success")
    assert not cut_short(work, [{"success_rate": 1.0}], "success")
    assert cut_short(work, [{"success_rate": 1.0}], "rmse")  # the error may still fall
    assert not cut_short(SCALES["paper"].attacked("mnist", NON_PRIVATE, 2), [{"success_rate": 0.0}], "rmse")


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.value.name)
def test_one_attack_answers_for_client_and_server_unless_the_server_adds_the_noise(method):
    at = [SCALES["desk"].attacked("mnist", method.value, surface) for surface in range(3)]
    assert (at[0] == at[1]) == (method.value.surface is not Surface.SERVER)
    assert at[1] != at[2]


def test_a_step_takes_some_time(shelf):
    (filled,) = driver(shelf).fill(table(cell(Timed(SMOKE.plan("cancer", NON_PRIVATE)), "seconds")))
    assert 0 < filled.answer.value < 10


@pytest.mark.parametrize("name", SHAPES)
def test_a_stand_in_has_the_shape_of_what_it_stands_for_and_says_so(name):
    made = stand_in(name)
    assert (made.shape, len(made.classes)) == SHAPES[name]
    assert made.name == f"stand-in for {name}"
    assert made.digest() == stand_in(name).digest()
