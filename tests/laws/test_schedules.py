"""What every noise schedule promises: float64 [T, L], positive, starting at sigma_0, with the paper's values."""

import numpy as np
import pytest

from gradveil.errors import BadInput
from gradveil.methods import DECAYS, decay
from gradveil.privacy.schedule import SCHEDULES, Constant, Cyclic, Exponential, Linear, Per, Staircase

EXAMPLES = {
    Constant: (Constant(6.0),),
    Linear: (Linear(start=15.0, end=4.85), Linear(start=15.0, gamma=0.006767), Linear(start=2.0, end=2.0)),
    Staircase: (
        Staircase(start=15.0, end=4.85),
        Staircase(start=15.0, gamma=0.06767),
        Staircase(start=3.0, end=1.0, every=7),
    ),
    Exponential: (Exponential(start=15.0, end=4.85), Exponential(start=15.0, gamma=0.0113)),
    Cyclic: (Cyclic(start=15.0), Cyclic(start=15.0, floor=4.85), Cyclic(start=15.0, cycles=3)),
}
FLAT = [s for examples in EXAMPLES.values() for s in examples]
PER_STEP = [type(s)(start=s.start, end=s.end, per=Per.STEP) for s in FLAT if getattr(s, "end", None) is not None]
BY_STEP = [*PER_STEP, Cyclic(start=15.0, cycles=2, per=Per.STEP)]
ALL = pytest.mark.parametrize("schedule", [*FLAT, *BY_STEP], ids=repr)
T = np.arange(100)


def start(schedule):
    return schedule.sigma if isinstance(schedule, Constant) else schedule.start


def test_every_schedule_has_an_example():
    assert set(EXAMPLES) == set(SCHEDULES)


@ALL
@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (95, 2), (100, 3)])
def test_it_is_positive_float64_and_starts_at_its_start(schedule, shape):
    sigmas = schedule.sigmas(*shape)
    assert sigmas.shape == shape
    assert sigmas.dtype == np.float64
    assert (sigmas > 0).all()
    assert np.isfinite(sigmas).all()
    assert sigmas[0, 0] == start(schedule)
    assert not schedule.silent


@ALL
@pytest.mark.parametrize("shape", [(1, 5), (23, 4), (100, 3)])
def test_every_decay_but_the_cyclic_never_rises_and_none_exceeds_its_start(schedule, shape):
    sigmas = schedule.sigmas(*shape).ravel()
    assert (sigmas <= start(schedule)).all()
    if not isinstance(schedule, Cyclic):
        assert (np.diff(sigmas) <= 0).all()
    if (end := getattr(schedule, "end", None)) is not None:
        assert (sigmas >= end * (1 - 1e-12)).all()


@pytest.mark.parametrize("schedule", FLAT, ids=repr)
def test_what_counts_rounds_is_the_same_at_every_step_of_a_round(schedule):
    assert getattr(schedule, "per", Per.ROUND) is Per.ROUND
    sigmas = schedule.sigmas(20, 5)
    np.testing.assert_array_equal(sigmas, np.repeat(sigmas[:, :1], 5, axis=1))
    np.testing.assert_array_equal(sigmas[:, 0], schedule.sigmas(20, 1)[:, 0])


@pytest.mark.parametrize(
    "schedule",
    [s for s in BY_STEP if not isinstance(s, Staircase) and s != Linear(start=2.0, end=2.0, per=Per.STEP)],
    ids=repr,
)
def test_what_counts_steps_differs_at_every_step_of_a_round(schedule):
    assert len(np.unique(schedule.sigmas(20, 5)[0])) == 5


@pytest.mark.parametrize("kind", [Linear, Exponential])
def test_a_decay_per_step_is_the_decay_per_round_of_as_many_rounds(kind):
    by_step = kind(start=15.0, end=4.85, per=Per.STEP).sigmas(10, 10).ravel()
    np.testing.assert_allclose(by_step, kind(start=15.0, end=4.85).sigmas(100, 1).ravel(), rtol=1e-12)


def test_stairs_are_counted_in_rounds_whatever_the_index():
    by_step, by_round = (Staircase(start=15.0, end=4.85, per=per).sigmas(100, 7) for per in (Per.STEP, Per.ROUND))
    np.testing.assert_allclose(by_step, by_round, rtol=1e-12)


def test_linear_is_the_authors_line():
    np.testing.assert_allclose(Linear(start=15.0, end=4.85).sigmas(100, 1)[:, 0], 15 - 10.15 * T / 100, rtol=1e-12)


def test_staircase_falls_every_ten_rounds():
    sigmas = Staircase(start=15.0, end=4.85).sigmas(100, 1)[:, 0]
    np.testing.assert_allclose(sigmas, 15 - 1.015 * (T // 10), rtol=1e-12)
    assert sigmas[-1] == pytest.approx(5.865)


def test_exponential_is_geometric():
    sigmas = Exponential(start=15.0, end=4.85).sigmas(100, 1)[:, 0]
    np.testing.assert_allclose(sigmas, 15 * (4.85 / 15) ** (T / 100), rtol=1e-12)


@pytest.mark.parametrize(("kind", "gamma"), [(Linear, 0.006767), (Staircase, 0.06767), (Exponential, 0.0113)])
def test_the_papers_gammas_reach_the_papers_end(kind, gamma):
    by_gamma, by_end = kind(start=15.0, gamma=gamma).sigmas(100, 1), kind(start=15.0, end=4.85).sigmas(100, 1)
    np.testing.assert_allclose(by_gamma, by_end, rtol=1e-3)


def test_cyclic_as_printed_is_a_cosine_that_falls_to_almost_nothing():
    sigmas = Cyclic(start=15.0).sigmas(100, 1)[:, 0]
    np.testing.assert_allclose(sigmas, 7.5 * (np.cos(np.pi * T / 100) + 1), rtol=1e-12)
    assert sigmas[99] == pytest.approx(0.0037, abs=5e-5)
    assert sigmas[50] == pytest.approx(7.5)


def test_cyclic_starts_anew_every_cycle():
    sigmas = Cyclic(start=15.0, cycles=4).sigmas(100, 2)[:, 0]
    np.testing.assert_array_equal(sigmas, np.tile(sigmas[:25], 4))
    np.testing.assert_array_equal(sigmas[::25], 15.0)


def test_the_floor_of_a_cycle_holds():
    sigmas, bare = (Cyclic(start=15.0, floor=floor).sigmas(100, 1)[:, 0] for floor in (4.85, 0.0))
    np.testing.assert_array_equal(sigmas, np.maximum(bare, 4.85))
    assert sigmas[-1] == 4.85


def test_only_a_constant_zero_is_silent():
    assert Constant(0.0).silent
    assert (Constant(0.0).sigmas(2, 3) == 0).all()


@pytest.mark.parametrize("name", DECAYS)
def test_every_decay_name_makes_a_schedule_between_start_and_end(name):
    sigmas = decay(name, 15.0, 4.85).sigmas(100, 2)
    assert sigmas[0, 0] == 15
    assert sigmas.min() >= 4.85 * (1 - 1e-12)
    assert (sigmas.min() < 6) == (name != "constant")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(-1.0),
        lambda: Constant(float("nan")),
        lambda: Constant(float("inf")),
        lambda: Linear(start=15.0),
        lambda: Linear(start=15.0, end=4.85, gamma=0.1),
        lambda: Linear(start=0.0, end=0.0),
        lambda: Linear(start=4.0, end=5.0),
        lambda: Exponential(start=4.0, gamma=-0.1),
        lambda: Exponential(start=float("nan"), gamma=0.1),
        lambda: Staircase(start=15.0, end=4.85, every=0),
        lambda: Cyclic(start=15.0, floor=16.0),
        lambda: Cyclic(start=15.0, cycles=0),
        lambda: Linear(start=15.0, gamma=0.02).sigmas(100, 1),
        lambda: Staircase(start=15.0, gamma=0.2).sigmas(100, 1),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(make):
    with pytest.raises(BadInput, match="= "):
        make()
