"""When a cell agrees with the paper, what the measures are, and how claims are judged."""

import math
from dataclasses import replace

import numpy as np
import pytest
from gradveil.reproduction.metrics import measured

from gradveil.reproduction import claims, judging
from gradveil.reproduction.arithmetic import rounds_until_spent
from gradveil.reproduction.cell import REASONS, Answer, Cell, Verdict, fill
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.table_catalog import TABLES
from gradveil.reproduction.whys import KNOWN, LARGE_BOUND, NO_CYCLE, NOISE, SMALL_BOUND, STRETCHED, why
from gradveil.reproduction.works import Exhausted, dataset_of, key_of, seeded

ALL = pytest.mark.parametrize("name", TABLES)


def cell(published, exact=False, reason=None):
    return Cell(
        row=("r",), column=("c",), published=published, work=None, measure="accuracy", exact=exact, reason=reason
    )


@pytest.mark.parametrize(
    ("published", "answer", "verdict"),
    [
        ("0.980", Answer(0.97, 0.006), Verdict.AGREES),  # 0.010 off, two errors are 0.012
        ("0.980", Answer(0.97, 0.004), Verdict.DIFFERS),
        ("0.980", Answer(0.97), Verdict.NOT_COMPARABLE),  # no error, so nothing to compare by
        ("Y", Answer("Y"), Verdict.AGREES),
        ("Y", Answer("N"), Verdict.DIFFERS),
        ("11", Answer("not reached"), Verdict.DIFFERS),
        ("0.98", Answer(None), Verdict.NOT_COMPARABLE),
        ("0.98", Answer(math.nan, 0.1), Verdict.NOT_COMPARABLE),
        (None, Answer(0.5, 0.1), Verdict.NOT_COMPARABLE),
    ],
)
def test_an_estimate_agrees_within_two_standard_errors(published, answer, verdict):
    assert fill(cell(published), answer).verdict is verdict


@pytest.mark.parametrize(
    ("published", "ours", "verdict"),
    [
        ("0.823", 0.8227, Verdict.AGREES),
        ("0.823", 0.8236, Verdict.DIFFERS),
        ("123.354", 123.457, Verdict.DIFFERS),
        ("100", 100, Verdict.AGREES),
        ("100", 101, Verdict.DIFFERS),
        ("28*28", "28*28", Verdict.AGREES),
    ],
)
def test_arithmetic_agrees_to_the_last_printed_digit(published, ours, verdict):
    assert fill(cell(published, exact=True), Answer(ours)).verdict is verdict


@pytest.mark.parametrize("measure", ["success", "which of 10", "accuracy", "accuracy after 3"])
def test_a_share_that_is_printed_as_one_is_not_rounded_to_a_whole_number(measure):
    verdicts = [
        fill(replace(cell("1"), measure=measure), Answer(ours, 0.01)).verdict for ours in (0.5, 0.95, 0.98, 1.0)
    ]
    assert verdicts == [Verdict.DIFFERS, Verdict.DIFFERS, Verdict.AGREES, Verdict.AGREES]
    assert fill(replace(cell("846"), measure="iterations"), Answer(846.4, 0.01)).verdict is Verdict.AGREES


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_forbids_comparing_even_equal_figures(reason):
    assert fill(cell("0.5", reason=reason), Answer(0.5, 0.1)).verdict is Verdict.NOT_COMPARABLE
    filled = fill(cell("0.5"), Answer(0.5, 0.1), hindrance=reason)
    assert (filled.verdict, filled.reason) == (Verdict.NOT_COMPARABLE, reason)


def trained(accuracy, curve=(), error=0.01):
    return {
        "accuracy": accuracy,
        "accuracy_error": error,
        "curve": list(curve),
        "rounds": len(curve),
        "diverged": False,
    }


def test_the_error_of_an_accuracy_joins_test_examples_and_seeds():
    answer = measured("accuracy", [trained(0.9), trained(0.94)])
    assert answer.value == pytest.approx(0.92)
    assert answer.spread == pytest.approx(0.02 * math.sqrt(2))
    assert answer.error == pytest.approx(math.sqrt(0.01**2 + 0.0008 / 2))
    assert measured("accuracy", [trained(0.9)]).error == pytest.approx(0.01)
    assert measured("accuracy", [trained(0.9), trained(None)]).value == "diverged"


@pytest.mark.parametrize(("target", "rounds"), [(0.5, 2), (0.2, 1), (0.7, 3), (0.71, "not reached")])
def test_rounds_are_counted_until_the_target_is_first_reached(target, rounds):
    assert measured(f"rounds to {target}", [trained(0.6, [0.3, 0.5, 0.7, 0.6])]).value == rounds


@pytest.mark.parametrize(("count", "accuracy"), [(1, 0.3), (4, 0.6), (5, None)])
def test_the_curve_is_read_after_some_rounds(count, accuracy):
    assert measured(f"accuracy after {count}", [trained(0.6, [0.3, 0.5, 0.7, 0.6])]).value == accuracy


@pytest.mark.parametrize("n", [143, 10_000])
@pytest.mark.parametrize("final", [0.986, 0.5, 1.0])
def test_the_error_of_an_accuracy_on_the_way_is_that_of_this_accuracy_and_not_of_the_last(n, final):
    record = trained(final, [0.441, final], math.sqrt(max(final * (1 - final), 1 / n) / n))
    assert measured("accuracy after 1", [record]).error == pytest.approx(math.sqrt(0.441 * 0.559 / n))
    assert measured("accuracy after 2", [record]).error == pytest.approx(record["accuracy_error"])
    # The same by a simulation that knows neither formula: how far the share of right answers strays.
    strays = np.random.default_rng(1).binomial(n, 0.441, 20_000) / n
    assert measured("accuracy after 1", [record]).error == pytest.approx(strays.std(), rel=0.03)


def test_the_error_of_an_accuracy_on_the_way_joins_that_between_seeds():
    n, ways = 400, (0.4, 0.5, 0.6)
    records = [trained(0.9, [way, 0.9], math.sqrt(0.09 / n)) for way in ways]
    within = sum(math.sqrt(way * (1 - way) / n) for way in ways) / 3
    assert measured("accuracy after 1", records).error == pytest.approx(math.sqrt(within**2 + 0.01 / 3))


def attacked(hits, flag=True):
    far = 0.7 if flag else 0.5
    victims = [{"success": hit, "rmse": 0.1, "rmse_unclamped": far, "iterations": 3} for hit in hits]
    return {"per_victim": victims, "candidates": [], "victims": len(hits)}


def test_success_has_a_binomial_error_that_is_never_nothing():
    answer = measured("success", [attacked([True] * 3 + [False])])
    assert (answer.value, answer.n) == (0.75, 4)
    assert answer.error == pytest.approx(math.sqrt(0.75 * 0.25 / 4))
    assert measured("success", [attacked([True] * 4)]).error == pytest.approx(1 / 8)


def test_words_of_an_attack_are_the_papers():
    assert measured("resilient by the paper's rule", [attacked([True])]).value == "Y"
    assert measured("resilient by the paper's rule", [attacked([True], flag=False)]).value == "N"
    assert measured("resilient by the paper's rule", [attacked([True]), attacked([True] * 3, flag=False)]).value == "N"
    assert measured("which of 10", [attacked([True])]).value is None


def test_candidates_are_pooled_over_seeds_by_their_victims():
    one, two = (attacked([True] * n) | {"candidates": [{"n": 10, "success": s}]} for n, s in ((10, 1.0), (30, 0.2)))
    assert measured("which of 10", [one, two]).value == pytest.approx(0.4)


def test_victims_of_one_seed_share_a_network_so_the_spread_between_seeds_counts():
    one, two = attacked([True] * 4), attacked([True] * 4)
    for victim in two["per_victim"]:
        victim["rmse"] = 0.3
    answer = measured("rmse", [one, two])
    assert answer.value == pytest.approx(0.2)
    assert answer.spread == pytest.approx(0.2 / math.sqrt(2))
    assert answer.error == pytest.approx(0.1)
    assert measured("rmse", [attacked([])]).value is None


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ([((0.9, 0.01), (0.5, 0.01))], "holds"),
        ([((0.9, 0.01), (0.5, 0.01)), ((0.4, 0.01), (0.5, 0.01))], "fails"),
        ([((0.5, 0.1), (0.51, 0.1))], "undecided"),
        ([((0.5, 0.0), (0.5, 0.0))], "holds"),
    ],
)
def test_an_order_is_judged_by_two_standard_errors(pairs, verdict):
    assert judging.ahead(iter(pairs)) == verdict


def test_many_pairs_need_a_larger_distance_each():
    apart = ((0.5, 0.01), (0.5 + 0.029, 0.01))  # 2.05 joint errors
    assert judging.ahead([apart]) == "fails"
    assert judging.ahead([apart] * 80) == "undecided"


def filled_table(name, numbers, scale="paper"):
    """A table whose cells hold the numbers that a function of row and column gives."""
    cells = TABLES[name][0](SCALES[scale]).cells
    return {name: [fill(c, Answer(numbers(c.row, c.column), 0.001, 3)) for c in cells]}


@pytest.mark.parametrize(
    ("claim", "table", "numbers", "verdict"),
    [
        (0, "population", lambda r, c: 0.9 if r == ("fed-alpha-cdp",) else 0.8, "holds"),
        (0, "population", lambda r, c: 0.7 if r == ("fed-alpha-cdp",) else 0.8, "fails"),
        (0, "population", lambda r, c: 0.8, "undecided"),
        (1, "clipping-bound", lambda r, c: 0.9 if r[1] == "fed-alpha-cdp" else 0.8, "holds"),
        (1, "clipping-bound", lambda r, c: 0.7 if r == ("lfw", "fed-alpha-cdp") else 0.8, "fails"),
        (1, "clipping-bound", lambda r, c: "diverged" if r[1] == "fed-cdp" else 0.8, "undecided"),
        (2, "clipping-bound", lambda r, c: 0.9 if c == ("C", "4") else 0.3, "holds"),
        (3, "privacy-fixed-rounds", lambda r, c: 0.9 if r[0] == "fed-alpha-cdp" else 0.8, "holds"),
        (6, "privacy-fixed-rounds", lambda r, c: 0.9 if r[0] == "fed-sdp" else 0.8, "holds"),
        (7, "noise-decay", lambda r, c: 0.9 if r[0] == "exponential" else 0.8, "holds"),
        (7, "noise-decay", lambda r, c: 0.9 if r[0] == "linear" else 0.8, "fails"),
        (11, "adaptive-clipping", lambda r, c: 0.01 if r[0] == "fed-alpha-cdp-sigma" else 0.02, "holds"),
        (11, "adaptive-clipping", lambda r, c: 0.02 if r[0] == "fed-alpha-cdp-sigma" else 0.01, "fails"),
        (13, "resilience", lambda r, c: 0.9 if r[1] == "fed-alpha-cdp-sigma" else 0.2, "holds"),
        (14, "resilience", lambda r, c: "N", "holds"),
        (14, "resilience", lambda r, c: "Y", "fails"),
        (15, "attack-settings", lambda r, c: 0.1 if r[0] == "after round 0" else 0.4, "holds"),
        (15, "attack-settings", lambda r, c: 0.4 if r[0] == "after round 0" else 0.1, "fails"),
        (16, "limitations", lambda r, c: float(int(r[0].split()[1].strip("%")) <= 40) if "%" in r[0] else 0.0, "holds"),
        (16, "limitations", lambda r, c: 1.0, "fails"),
        (19, "privacy-fixed-rounds", lambda r, c: 0.9 if r[0] == "fed-sdp" else 0.8, "fails"),
        (19, "privacy-fixed-rounds", lambda r, c: 0.8, "undecided"),
        (20, "privacy-fixed-rounds", lambda r, c: 0.8, "holds"),
        (20, "privacy-fixed-rounds", lambda r, c: 0.9 if r[0] == "fed-sdp" and c == ("lfw",) else 0.8, "fails"),
    ],
)
def test_a_claim_is_judged_by_the_cells_it_is_about(claim, table, numbers, verdict):
    assert claims.judged(filled_table(table, numbers), None)[claim].answer.value == verdict


def test_the_place_of_noise_is_judged_by_the_pattern_of_the_paper():
    shut = {"fed-sdp": "0", "fed-sdp-client": "01", "fed-alpha-cdp-sigma": "012"}
    tables = filled_table("resilience", lambda r, c: "Y" if r[0][-1] in shut.get(r[1], "") else "N")
    place = [c.name for c in claims.CLAIMS].index("where noise is added")
    assert claims.judged(tables, None)[place].answer.value == "holds"
    assert claims.judged(filled_table("resilience", lambda r, c: "Y"), None)[place].answer.value == "fails"


def test_below_the_papers_scale_only_arithmetic_is_compared():
    tables = filled_table("privacy-fixed-rounds", lambda r, c: 0.9 if r[0] == "fed-sdp" else 0.8)
    judged = claims.judged(tables, "smaller")
    compared = {f.cell.row[0] for f in judged if f.verdict is not Verdict.NOT_COMPARABLE}
    assert compared == {"same epsilon", "smaller epsilon than Fed-SDP"}


def test_a_claim_without_its_cells_is_undecided():
    assert {f.answer.value for f in claims.judged({}, None)} == {"undecided"}
    assert {f.verdict for f in claims.judged({}, None)} == {Verdict.NOT_COMPARABLE}


@pytest.mark.parametrize(
    ("decay", "rounds"), [("linear", 95), ("staircase", 95), ("exponential", 96), ("constant", 100)]
)
def test_the_papers_decays_exhaust_the_moments_budget_in_its_rounds(decay, rounds):
    assert rounds_until_spent(Exhausted("moments", decay, 0.823, 100)) == rounds


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@ALL
def test_every_place_of_a_table_is_laid_out_once_and_every_work_has_a_name(name, scale):
    table = TABLES[name][0](scale)
    assert table.name == name
    places = [(c.row, c.column) for c in table.cells]
    assert len(set(places)) == len(places) > 0
    assert all(c.reason is None or c.reason in REASONS for c in table.cells)
    works = [c.work for c in table.cells if c.work is not None]
    assert all(len(key_of(work, "data")) == 24 for work in works)


def test_data_and_seed_are_part_of_a_works_name():
    work = TABLES["population"][0](SCALES["desk"]).cells[0].work
    names = {key_of(work, "a"), key_of(work, "b"), key_of(seeded(work, 1), "a")}
    assert len(names) == 3
    assert key_of(seeded(work, 0), "a") == key_of(work, "a")


def test_only_paper_scale_trains_as_the_paper_does():
    for name, reason in (("paper", None), ("desk", "smaller"), ("smoke", "smaller")):
        cells = TABLES["clipping-bound"][0](SCALES[name]).cells
        assert {c.reason for c in cells if c.row[0] == "mnist"} == {reason}
    desk = TABLES["clipping-bound"][0](SCALES["desk"]).cells
    assert {c.reason for c in desk if c.row[0] == "cancer"} == {None}  # small enough to be done whole


def test_the_minutes_of_all_tables_stay_within_the_scale():
    desk = SCALES["desk"]
    assert sum(make(desk).minutes for make, _ in TABLES.values()) <= desk.minutes


def test_every_known_cause_belongs_to_a_cell():
    scale = SCALES["paper"]
    places = {(name, *c.row, *c.column) for name, (make, _) in TABLES.items() for c in make(scale).cells}
    assert places >= set(KNOWN)
    assert why("noise-decay", ("cyclic", "rounds"), ("lfw",)) == NO_CYCLE
    assert why("noise-decay", ("linear", "rounds"), ("lfw",)) == STRETCHED
    assert not why("noise-decay", ("linear", "accuracy"), ("lfw",))


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
    assert why(table, row, column) == cause


def test_at_paper_scale_all_of_mnist_has_100_rounds_but_what_does_not_learn():
    cells = TABLES["noise-scale"][0](SCALES["paper"]).cells
    rounds = {c.row: c.work.plan.rounds for c in cells if dataset_of(c.work) == "mnist"}
    assert {row for row, n in rounds.items() if n != 100} == {("sigma = 6", "fed-sdp")}
    assert rounds["sigma = 6", "fed-sdp"] == 20


def test_little_noise_has_a_rate_of_its_own_in_the_figure_of_limitations():
    cells = TABLES["limitations"][0](SCALES["paper"]).cells
    rates = {c.row[0]: c.work.plan.learning_rate for c in cells if c.column == ("mnist", "accuracy")}
    assert rates["fed-cdp, sigma 0.5"] == rates["pruning 30% and fed-cdp, sigma 0.5"] > rates["fed-cdp, sigma 6"]
