"""How the conclusions of the paper are judged by cells."""

import pytest

from gradveil.reproduction import claim_rules, claims
from gradveil.reproduction.cell import Agreement, Measurement, fill
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.table_names import lay_out


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
    assert claim_rules.ahead((Measurement(*a), Measurement(*b)) for a, b in pairs) == verdict


def test_many_pairs_need_a_larger_distance_each():
    apart = (Measurement(0.5, 0.01), Measurement(0.5 + 0.029, 0.01))  # 2.05 joint errors
    assert claim_rules.ahead([apart]) == "fails"
    assert claim_rules.ahead([apart] * 80) == "undecided"


LESS, MORE = Measurement(0.4, 0.01), Measurement(0.9, 0.01)


def test_one_counterexample_is_enough_and_nothing_holds_while_a_cell_is_missing():
    assert claim_rules.ahead([(LESS, MORE), (None, LESS)]) == "fails"
    assert claim_rules.ahead([(MORE, LESS), (MORE, None)]) == "undecided"
    assert claim_rules.ahead([(MORE, LESS), (MORE, LESS)]) == "holds"
    assert claim_rules.alike([(LESS, MORE), (None, None)]) == "fails"


def test_a_difference_is_judged_by_pairs_of_seeds():
    luck = {0: 0.70, 1: 0.80, 2: 0.90, 3: 0.75, 4: 0.85}  # of the seed, the same for both
    shifts = {0: 0.019, 1: 0.021, 2: 0.020, 3: 0.022, 4: 0.018}
    lower = Measurement(0.8, 0.035, by_seed=luck)
    higher = Measurement(0.82, 0.035, by_seed={seed: luck[seed] + shifts[seed] for seed in luck})
    assert claim_rules.ahead([(higher, lower)]) == "holds"
    assert claim_rules.ahead([(lower, higher)]) == "fails"
    unpaired = Measurement(0.82, 0.035, by_seed={seed + 5: value for seed, value in higher.by_seed.items()})
    assert claim_rules.ahead([(unpaired, lower)]) == "undecided"


def test_two_pairs_of_seeds_need_far_more_than_two_errors():
    lower = Measurement(0.8, 0.0, by_seed={0: 0.80, 1: 0.80})
    higher = Measurement(
        0.82, 0.0, by_seed={0: 0.815, 1: 0.825}
    )  # 4 errors apart; Student's t of one degree asks for 14
    assert claim_rules.ahead([(higher, lower)]) == "undecided"


def filled_table(name, numbers, scale="paper"):
    """A table whose cells hold the numbers that a function of row and column gives."""
    cells = lay_out(name, SCALES[scale]).cells
    return {name: [fill(c, Measurement(numbers(c.row, c.column), 0.001, 3)) for c in cells]}


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
    assert claims.judged(filled_table(table, numbers), None)[claim].measurement.value == verdict


def test_where_noise_is_added_is_judged_by_the_pattern_of_the_paper():
    shut = {"fed-sdp": "0", "fed-sdp-client": "01", "fed-alpha-cdp-sigma": "012"}
    tables = filled_table("resilience", lambda r, c: "Y" if r[0][-1] in shut.get(r[1], "") else "N")
    index = [c.name for c in claims.CLAIMS].index("where noise is added")
    assert claims.judged(tables, None)[index].measurement.value == "holds"
    assert claims.judged(filled_table("resilience", lambda r, c: "Y"), None)[index].measurement.value == "fails"


def test_below_the_papers_scale_only_arithmetic_is_compared():
    tables = filled_table("privacy-fixed-rounds", lambda r, c: 0.9 if r[0] == "fed-sdp" else 0.8)
    judged = claims.judged(tables, "smaller")
    compared = {f.cell.row[0] for f in judged if f.agreement is not Agreement.NOT_COMPARABLE}
    assert compared == {"same epsilon", "smaller epsilon than Fed-SDP"}


def test_a_claim_without_its_cells_is_undecided():
    assert {f.measurement.value for f in claims.judged({}, None)} == {"undecided"}
    assert {f.agreement for f in claims.judged({}, None)} == {Agreement.NOT_COMPARABLE}
