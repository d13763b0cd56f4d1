"""What every table lays out: each cell once, each with a job that has a name, by settings of its scale."""

import pytest

from gradveil.reproduction.arithmetic import rounds_until_spent
from gradveil.reproduction.cell import REASONS
from gradveil.reproduction.interpretations import CAUSES, LARGE_BOUND, NO_CYCLE, NOISE, SMALL_BOUND, STRETCHED, cause_of
from gradveil.reproduction.jobs import ExhaustionJob, dataset_of, key_of, seeded
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.table_names import TABLES, lay_out

ALL = pytest.mark.parametrize("name", TABLES)


@pytest.mark.parametrize(
    ("decay", "rounds"), [("linear", 95), ("staircase", 95), ("exponential", 96), ("constant", 100)]
)
def test_the_papers_decays_exhaust_the_moments_budget_in_its_rounds(decay, rounds):
    assert rounds_until_spent(ExhaustionJob("moments", decay, 0.823, 100)) == rounds


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@ALL
def test_every_cell_of_a_table_is_laid_out_once_and_every_job_has_a_name(name, scale):
    table = lay_out(name, scale)
    assert table.name == name
    headings = [(c.row, c.column) for c in table.cells]
    assert len(set(headings)) == len(headings) > 0
    assert all(c.reason is None or c.reason in REASONS for c in table.cells)
    jobs = [c.job for c in table.cells if c.job is not None]
    assert all(len(key_of(job, "data")) == 24 for job in jobs)


def test_data_and_seed_are_part_of_a_jobs_name():
    job = lay_out("population", SCALES["desk"]).cells[0].job
    names = {key_of(job, "a"), key_of(job, "b"), key_of(seeded(job, 1), "a")}
    assert len(names) == 3
    assert key_of(seeded(job, 0), "a") == key_of(job, "a")


def test_only_paper_scale_trains_as_the_paper_does():
    for name, reason in (("paper", None), ("desk", "smaller"), ("smoke", "smaller")):
        cells = lay_out("clipping-bound", SCALES[name]).cells
        assert {c.reason for c in cells if c.row[0] == "mnist"} == {reason}
    desk = lay_out("clipping-bound", SCALES["desk"]).cells
    assert {c.reason for c in desk if c.row[0] == "cancer"} == {None}  # small enough to be done whole


def test_the_minutes_of_all_tables_stay_within_the_scale():
    desk = SCALES["desk"]
    assert sum(lay_out(name, desk).minutes for name in TABLES) <= desk.minutes


def test_every_known_cause_belongs_to_a_cell():
    scale = SCALES["paper"]
    cells = {(name, *c.row, *c.column) for name in TABLES for c in lay_out(name, scale).cells}
    assert cells >= set(CAUSES)
    assert cause_of("noise-decay", ("cyclic", "rounds"), ("lfw",)) == NO_CYCLE
    assert cause_of("noise-decay", ("linear", "rounds"), ("lfw",)) == STRETCHED
    assert not cause_of("noise-decay", ("linear", "accuracy"), ("lfw",))


@pytest.mark.parametrize(
    ("table", "row", "column", "cause"),
    [
        ("noise-decay", ("linear", "accuracy"), ("cancer",), NOISE),
        ("adaptive-clipping", ("quantile", "accuracy"), ("cancer",), NOISE),
        ("privacy-fixed-rounds", ("fed-sdp", "accuracy"), ("cancer",), ""),
        ("clipping-bound", ("cancer", "fed-cdp"), ("C", "4"), NOISE),
        ("clipping-bound", ("cancer", "fed-cdp"), ("C", "0.1"), SMALL_BOUND),
        ("clipping-bound", ("cancer", "fed-sdp"), ("C", "32"), LARGE_BOUND),
        ("clipping-bound", ("cancer", "fed-sdp"), ("C", "4"), ""),
        ("clipping-bound", ("cancer", "non-private"), ("C", "any"), ""),
        ("clipping-bound", ("lfw", "fed-cdp"), ("C", "4"), ""),
    ],
)
def test_on_cancer_the_noise_is_told_from_the_bound(table, row, column, cause):
    assert cause_of(table, row, column) == cause


def test_at_paper_scale_all_of_mnist_has_100_rounds_but_what_does_not_learn():
    cells = lay_out("noise-scale", SCALES["paper"]).cells
    rounds = {c.row: c.job.plan.rounds for c in cells if dataset_of(c.job) == "mnist"}
    assert {row for row, n in rounds.items() if n != 100} == {("sigma = 6", "fed-sdp")}
    assert rounds["sigma = 6", "fed-sdp"] == 20


def test_little_noise_has_a_rate_of_its_own_in_the_figure_of_limitations():
    cells = lay_out("limitations", SCALES["paper"]).cells
    rates = {c.row[0]: c.job.plan.learning_rate for c in cells if c.column == ("mnist", "accuracy")}
    assert rates["fed-cdp, sigma 0.5"] == rates["pruning 30% and fed-cdp, sigma 0.5"] > rates["fed-cdp, sigma 6"]
