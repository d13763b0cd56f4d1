"""What holds for every accountant and every adversary, whatever the numbers."""

import json
import math
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from gradveil import normals
from gradveil.accounting import guarantee, tight
from gradveil.accounting.accountant import account, guarantees, is_presumption, presumed
from gradveil.accounting.as_paper import ACCOUNTANTS, PAPER
from gradveil.accounting.caveats import (
    COPIES,
    CUT,
    DATA_DEPENDENT,
    IN_MEMORY,
    NO_NOISE,
    NOISE_ENDS,
    NOT_HIDDEN,
    OWN_NOISE,
    PRESUMED,
    RAW_AT_SERVER,
    RAW_COUNT,
    RAW_IN_CLIENT,
    REPLACEMENT,
    UNKNOWN_BATCH,
    UNSOUND_CLIP,
)
from gradveil.accounting.composition import advanced_as_coded
from gradveil.accounting.moments import rdp
from gradveil.accounting.participation import NOISE_END, worst
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.steps import Step, grouped, is_noiseless, merged, repeated, rho, rounded
from gradveil.accounting.threats import THREATS
from gradveil.accounting.tight import gaussian_epsilon, pld, pld_with_visible_draws

DELTA = 1e-5
EVERY = {**ACCOUNTANTS, "advanced-as-coded": advanced_as_coded}
ALL = pytest.mark.parametrize("accountant", EVERY.values(), ids=EVERY)
THREAT = pytest.mark.parametrize("threat", THREATS)
ADJACENCY = pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
GRID = 1e-6
"""Slack for comparing two values that both come from a grid."""


@ALL
def test_more_steps_cost_more(accountant):
    costs = [accountant([Step(2.0, 0.05, n)], DELTA) for n in (1, 2, 10, 100, 1_000)]
    assert all(a < b for a, b in pairwise(costs))


@ALL
def test_a_higher_rate_costs_more(accountant):
    costs = [accountant([Step(2.0, q, 50)], DELTA) for q in (0.001, 0.01, 0.1, 1.0)]
    assert all(a < b for a, b in pairwise(costs))


@ALL
def test_less_noise_costs_more(accountant):
    costs = [accountant([Step(z, 0.05, 50)], DELTA) for z in (20.0, 6.0, 2.0, 1.0)]
    assert all(a < b for a, b in pairwise(costs))


@ALL
def test_a_smaller_delta_costs_more(accountant):
    costs = [accountant([Step(2.0, 0.05, 50)], delta) for delta in (1e-2, 1e-3, 1e-5, 1e-8)]
    assert all(a < b for a, b in pairwise(costs))


@ALL
@pytest.mark.parametrize("steps", [[], [Step(2.0, 0.05, 0)], [Step(2.0, 0.0, 7)]])
def test_nothing_released_costs_nothing(accountant, steps):
    assert accountant(steps, DELTA) == 0


@ALL
@pytest.mark.parametrize("q", [0.01, 1.0])
def test_one_step_without_noise_costs_everything(accountant, q):
    assert accountant([Step(6.0, 0.01, 10), Step(0.0, q, 1)], DELTA) == math.inf


STEPS = st.lists(
    st.tuples(st.sampled_from([5.0, 8.0, 20.0]), st.sampled_from([0.01, 0.2, 1.0]), st.integers(1, 4)).map(
        lambda numbers: Step(*numbers)
    ),
    min_size=1,
    max_size=4,
)


@ALL
@settings(max_examples=8, deadline=None, derandomize=True)
@given(steps=STEPS, seed=st.integers(0, 99))
def test_neither_order_nor_grouping_matters(accountant, steps, seed):
    singly = [s._replace(times=1) for s in steps for _ in range(s.times)]
    shuffled = [singly[i] for i in np.random.default_rng(seed).permutation(len(singly))]
    whole = accountant(steps, DELTA)
    for same in (steps[::-1], shuffled, merged(steps), merged(*([s] for s in shuffled))):
        assert accountant(same, DELTA) == pytest.approx(whole, rel=2e-4)


@pytest.mark.parametrize("accountant", PAPER.values(), ids=PAPER)
def test_twice_the_steps_is_the_steps_repeated(accountant):
    steps = [Step(2.0, 0.05, 3), Step(4.0, 0.1, 2)]
    assert accountant(repeated(steps, 2), DELTA) == pytest.approx(accountant([*steps, *steps], DELTA), rel=1e-12)


def test_grouping_counts_equal_multipliers():
    assert grouped([3.0, 1.0, 3.0], 0.1) == (Step(1.0, 0.1, 1), Step(3.0, 0.1, 2))
    assert not is_noiseless([Step(0.0, 0.0, 3), Step(0.0, 1.0, 0)])


SIGMAS = np.linspace(15.0, 4.85, 10_000)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    zs=st.lists(st.floats(0.3, 50.0), min_size=2, max_size=60, unique=True),
    levels=st.integers(2, 12),
    q=st.sampled_from([0.01, 1.0]),
)
def test_rounding_never_raises_a_multiplier_and_says_what_it_cost(zs, levels, q):
    fine = [Step(z, q, 1 + i % 3) for i, z in enumerate(zs)]
    coarse, cost = rounded(fine, levels)
    expanded = [np.repeat([s.z for s in steps], [s.times for s in steps]) for steps in (coarse, fine)]
    low, high = map(np.sort, expanded)
    assert len(low) == len(high)
    assert (low <= high).all()
    assert len({s.z for s in coarse}) <= levels or len(set(zs)) <= levels
    by_hand = sum(s.times / s.z**2 for s in coarse) / sum(s.times / s.z**2 for s in fine) - 1
    assert cost == pytest.approx(by_hand, abs=1e-9)
    assert cost >= 0
    assert pld([s._replace(q=1.0) for s in coarse], DELTA) >= pld([s._replace(q=1.0) for s in fine], DELTA) - 1e-9


def test_few_multipliers_are_left_as_they_are():
    steps = grouped(np.linspace(1, 2, 100), 0.1)
    assert rounded(steps) == (steps, 0.0)


def test_rounding_ten_thousand_multipliers_costs_about_a_percent():
    coarse, cost = rounded(grouped(SIGMAS, 0.01))
    assert len(coarse) <= 100
    assert sum(s.times for s in coarse) == 10_000
    assert cost == pytest.approx(0.0115, abs=2e-4)
    assert cost == pytest.approx(rho(coarse) / rho(grouped(SIGMAS, 0.01)) - 1, rel=1e-12)


def test_rounding_keeps_different_rates_apart_and_a_missing_noise_missing():
    fine = [Step(1 + i / 200, q, 1) for i in range(200) for q in (0.1, 1.0)]
    coarse, _ = rounded(fine)
    assert {q: sum(s.times for s in coarse if s.q == q) for q in (0.1, 1.0)} == {0.1: 200, 1.0: 200}
    bare, cost = rounded([*fine, Step(0.0, 1.0, 1)])
    assert (min(s.z for s in bare), cost) == (0.0, 0.0)


@pytest.mark.parametrize("accountant", [rdp, pld], ids=["rdp", "pld"])
def test_ten_thousand_different_sigmas_cost_about_as_much_as_their_mean(accountant):
    cost = accountant(grouped(SIGMAS, 0.01), DELTA)
    mean = math.sqrt(1 / np.mean(1 / SIGMAS**2))
    assert cost == pytest.approx(accountant([Step(mean, 0.01, 10_000)], DELTA), rel=0.03)


Z = 40.0
"""Much noise, so that losses are small and their grids short."""


def release(t=0, **changes):
    fields = {
        "surface": 2,
        "unit": "example",
        "part": "sum",
        "sigmas": (Z,) * 3,
        "ratio": 1.0,
        "layers": 1,
        "draw": "sum",
        "expected": 2.0,
        "capacity": 3,
        "client_size": 20,
        "share": False,
        "example_sampling": "poisson",
        "example_rate": 0.1,
        "touches": 3,
        "cohort_sampling": "poisson",
        "cohort_rate": 0.5,
        "cohort": 4,
        "copies": 1,
        "data_dependent": False,
    }
    return Release(round=t, **(fields | changes))


def ledger(rounds=3, times=None, source="secret", **changes):
    return Ledger(tuple(release(t, **changes) for t in range(rounds)), rounds if times is None else times, source)


def client(surface=0, **changes):
    return {"surface": surface, "unit": "client", "sigmas": (Z,), "expected": 4.0 if surface == 0 else 1.0} | changes


def epsilon(threat, held, adjacency="add-remove", delta=DELTA):
    return account(held, delta, adjacency, threat).epsilon


SETTINGS = pytest.mark.parametrize(
    ("batches", "adjacency"),
    [
        ("poisson", "add-remove"),
        ("poisson", "replace-one"),
        ("allocation", "add-remove"),
        ("allocation", "replace-one"),
        ("fixed-pass", "add-remove"),
        ("replacement", "add-remove"),
    ],
)
BATCHES = pytest.mark.parametrize("batches", ["poisson", "allocation", "fixed-pass", "replacement"])


@THREAT
@ADJACENCY
def test_an_empty_ledger_costs_nothing(threat, adjacency):
    assert epsilon(threat, Ledger((), 0), adjacency) == 0


@THREAT
@ADJACENCY
@pytest.mark.parametrize("changes", [{"sigmas": (Z, 0.0, Z)}, {"ratio": math.inf}, client(sigmas=(0.0,))])
def test_nothing_holds_without_noise_or_bound(threat, adjacency, changes):
    found = account(ledger(**changes), DELTA, adjacency, threat)
    assert (found.epsilon, found.finite) == (math.inf, False)
    assert NO_NOISE in found.caveats


@THREAT
@ADJACENCY
@pytest.mark.parametrize("changes", [{}, client(), client(1)])
def test_noise_scaled_to_the_data_guarantees_nothing_and_says_why(threat, adjacency, changes):
    spoilt = ledger(**changes).releases[:2] + ledger(**changes, data_dependent=True, ratio=0.0).releases[2:]
    found = account(Ledger(spoilt, 3), DELTA, adjacency, threat)
    assert found.epsilon == math.inf
    assert found.caveats[0] == DATA_DEPENDENT
    assert "docs/soundness.md" in DATA_DEPENDENT


@THREAT
@SETTINGS
def test_rounds_noise_rate_and_delta_move_every_adversary_the_right_way(threat, batches, adjacency):
    start = ledger(example_sampling=batches)
    middle = epsilon(threat, start, adjacency)
    assert 0 < middle < math.inf
    assert epsilon(threat, ledger(4, example_sampling=batches), adjacency) > middle
    assert epsilon(threat, ledger(example_sampling=batches, sigmas=(30.0,) * 3), adjacency) > middle
    assert epsilon(threat, ledger(example_sampling=batches, layers=3), adjacency) > middle
    not_less = middle * (1 - 1e-12)  # closed forms are solved to that
    assert epsilon(threat, ledger(example_sampling=batches, example_rate=0.2), adjacency) >= not_less
    assert epsilon(threat, ledger(example_sampling=batches, cohort_rate=0.9), adjacency) >= not_less
    assert epsilon(threat, start, adjacency, delta=1e-7) > middle


@THREAT
def test_the_order_of_rounds_does_not_matter(threat):
    held = tuple(release(t, sigmas=(sigma,) * 3) for t, sigma in enumerate((50.0, 30.0, 40.0)))
    assert epsilon(threat, Ledger(held, 2)) == pytest.approx(epsilon(threat, Ledger(held[::-1], 2)), rel=1e-9)


@THREAT
@BATCHES
def test_replacing_a_unit_costs_more_than_leaving_it_out(threat, batches):
    held = ledger(example_sampling=batches)
    assert epsilon(threat, held, "replace-one") > epsilon(threat, held)


@SETTINGS
@pytest.mark.parametrize(("cohorts", "copies"), [("fixed", 1), ("poisson", 1), ("poisson", 3)])
def test_who_sees_more_learns_more(batches, adjacency, cohorts, copies):
    held = ledger(example_sampling=batches, cohort_sampling=cohorts, copies=copies, touches=1)
    seen = [
        epsilon(threat, held, adjacency)
        for threat in ("central", "central-visible", "aggregate", "server", "type2-secret")
    ]
    assert seen == sorted(seen)
    known = epsilon("type2-known", held, adjacency)
    assert known > 1.1 * seen[-1] if batches in ("poisson", "allocation") else known == seen[-1]
    assert epsilon("client-central", held, adjacency) <= epsilon("client-server", held, adjacency)
    if copies == 1:
        assert epsilon("client-server", held, adjacency) >= seen[3]


@pytest.mark.parametrize("cohorts", ["fixed", "poisson"])
def test_no_draw_of_a_cohort_hides_a_single_example(cohorts):
    found = account(ledger(cohort_sampling=cohorts), DELTA, "add-remove", "central")
    assert found.epsilon == epsilon("central-visible", ledger(cohort_sampling=cohorts))
    assert (NOT_HIDDEN in found.caveats) == (cohorts == "poisson")


def test_the_figure_that_lets_a_draw_hide_an_example_is_shown_as_no_guarantee():
    held = ledger()
    (shown,) = presumed(held, DELTA, "add-remove")
    assert (shown["threat_model"], shown["label"]) == ("central", PRESUMED)
    assert "not a guarantee" in PRESUMED
    assert 0 < shown["epsilon"] < epsilon("central", held)
    assert is_presumption(held, "central")
    for sound in (ledger(cohort_sampling="fixed"), ledger(**client()), ledger(cohort_rate=1.0), Ledger((), 0)):
        assert not is_presumption(sound, "central")
        assert presumed(sound, DELTA, "add-remove") == []
    assert not is_presumption(held, "server")


@pytest.mark.parametrize("threat", ["central", "client-central"])
def test_for_a_whole_client_a_secret_cohort_hides_only_if_the_noise_joins_at_the_server(threat):
    at_server = account(ledger(**client()), DELTA, "add-remove", threat)
    assert at_server.epsilon < epsilon(threat, ledger(**client(cohort_sampling="fixed")))
    assert NOT_HIDDEN not in at_server.caveats
    assert OWN_NOISE not in at_server.caveats
    in_client = account(ledger(**client(1)), DELTA, "add-remove", threat)
    assert in_client.epsilon == epsilon("central-visible", ledger(**client(1)))
    assert {NOT_HIDDEN, OWN_NOISE} <= set(in_client.caveats)


def test_noise_on_examples_gives_a_whole_client_no_credit_for_its_secret_draw():
    """Drawn by the client, the noise is missing when the client is."""
    rare, often = (account(ledger(cohort_rate=g), DELTA, "add-remove", "client-central") for g in (0.1, 0.9))
    assert NOT_HIDDEN in rare.caveats
    fixed = epsilon("client-central", ledger(cohort_rate=0.1, cohort_sampling="fixed"))
    assert rare.epsilon == fixed
    assert rare.epsilon < often.epsilon


def test_a_cohort_of_everyone_leaves_nothing_to_hide():
    for batches in ("poisson", "fixed-pass"):
        held = ledger(example_sampling=batches, cohort_rate=1.0)
        assert epsilon("central", held) == pytest.approx(epsilon("server", held), rel=1e-6)


def test_poisson_batches_amplify_and_a_fixed_pass_does_not():
    passed = ledger(example_sampling="fixed-pass", touches=1)
    assert epsilon("server", passed) == pytest.approx(gaussian_epsilon(math.sqrt(3) / Z, DELTA), abs=1e-9)
    assert epsilon("server", ledger(touches=1)) < epsilon("server", passed)
    assert epsilon("server", replaced(passed, touches=3)) == pytest.approx(gaussian_epsilon(3 / Z, DELTA), abs=1e-9)


def replaced(held, **changes):
    return replace(held, releases=tuple(replace(r, **changes) for r in held.releases))


def test_a_fixed_pass_charges_the_batches_with_least_noise():
    held = ledger(1, example_sampling="fixed-pass", touches=1, sigmas=(8.0, 2.0, 4.0))
    assert epsilon("server", held) == pytest.approx(gaussian_epsilon(1 / 2, DELTA), abs=1e-9)


def test_sampling_with_replacement_counts_a_record_b_times_in_every_batch():
    found = account(ledger(example_sampling="replacement"), DELTA, "add-remove", "server")
    assert found.epsilon == pytest.approx(gaussian_epsilon(3 * 2 / Z, DELTA), abs=1e-9)
    assert REPLACEMENT in found.caveats


@pytest.mark.parametrize("threat", [t for t in THREATS if not t.startswith("client")])
def test_every_copy_of_a_record_counts_and_is_mentioned(threat):
    one, three = (account(ledger(copies=c), DELTA, "add-remove", threat) for c in (1, 3))
    assert three.epsilon > one.epsilon
    assert (COPIES in one.caveats, COPIES in three.caveats) == (False, True)


def test_copies_times_participations_is_what_the_server_sees():
    assert epsilon("server", ledger(2, copies=3)) == pytest.approx(epsilon("server", ledger(6)), rel=1e-9)


@pytest.mark.parametrize("threat", ["client-central", "client-server"])
def test_copies_do_not_matter_to_a_client(threat):
    assert epsilon(threat, ledger(copies=3)) == pytest.approx(epsilon(threat, ledger()), rel=1e-6)


def test_a_client_that_took_part_less_often_lost_less_and_never_took_part_lost_nothing():
    losses = [epsilon("server", ledger(5, times)) for times in range(7)]
    assert losses[0] == 0
    assert losses[:6] == sorted(set(losses))
    assert losses[5] == losses[6]


def test_participations_are_charged_to_the_rounds_with_least_noise():
    held = tuple(release(t, sigmas=(sigma,) * 3) for t, sigma in enumerate((90.0, 20.0, 50.0, 30.0)))
    assert [r.sigmas[0] for r in worst(held, 2)] == [20.0, 30.0]
    assert worst(held, -1) == ()
    assert epsilon("server", Ledger(held, 2)) == pytest.approx(epsilon("server", Ledger(held[1::2], 2)), rel=1e-9)


def test_a_round_that_is_loud_throughout_costs_more_than_one_that_ends_loud():
    held = [replace(release(0), sigmas=s, example_sampling="replacement") for s in ((15.0, 15.0, 4.85), (4.85,) * 3)]
    assert worst(held, 1)[0].sigmas == (4.85,) * 3


@pytest.mark.parametrize("threat", ["server", "type2-known", "client-server"])
def test_no_choice_of_rounds_costs_more_than_what_is_charged(threat):
    """Sampled steps have no order by 1 / z^2: one loud step may cost more than three that are loud in sum."""
    rows = [(1.0, 60.0, 60.0), (1.7, 1.7, 1.7), (1.1, 50.0, 9.0), (4.0, 3.0, 2.0)]
    held = tuple(release(t, sigmas=row, example_rate=0.001) for t, row in enumerate(rows))
    for times in (1, 2):
        chosen = [epsilon(threat, Ledger(some, times)) for some in combinations(held, times)]
        assert epsilon(threat, Ledger(held, times)) >= max(chosen) * (1 - 1e-3)
    loudest_in_sum = max(held, key=lambda r: sum(1 / z**2 for z in r.sigmas))
    true = max(epsilon("server", Ledger((r,), 1)) for r in held)
    assert epsilon("server", Ledger((loudest_in_sum,), 1)) < 0.9 * true


def test_noise_at_the_server_protects_nobody_from_the_server():
    found = account(ledger(**client()), DELTA, "add-remove", "server")
    assert (found.epsilon, RAW_AT_SERVER in found.caveats) == (math.inf, True)
    assert math.isfinite(epsilon("central", ledger(**client())))
    assert math.isfinite(epsilon("server", ledger(**client(1))))


@pytest.mark.parametrize("threat", ["type2-secret", "type2-known"])
@pytest.mark.parametrize("surface", [0, 1])
def test_noise_after_local_training_leaves_the_inside_of_a_client_bare(threat, surface):
    found = account(ledger(**client(surface)), DELTA, "add-remove", threat)
    assert (found.epsilon, RAW_IN_CLIENT in found.caveats) == (math.inf, True)


def test_updates_noised_by_clients_add_up_their_noise_in_a_fixed_cohort_only():
    fixed, drawn = (ledger(1, **client(1, cohort_sampling=c, cohort_rate=1.0)) for c in ("fixed", "poisson"))
    assert epsilon("central", fixed) == pytest.approx(gaussian_epsilon(1 / (Z * math.sqrt(4)), DELTA), abs=1e-9)
    assert epsilon("central", drawn) == pytest.approx(gaussian_epsilon(1 / Z, DELTA), abs=1e-9)
    shared = replaced(fixed, share=True)
    assert epsilon("central", shared) == pytest.approx(gaussian_epsilon(1 / Z, DELTA), abs=1e-9)
    assert epsilon("server", shared) == pytest.approx(gaussian_epsilon(2 / Z, DELTA), abs=1e-9)


def test_a_whole_client_may_change_every_unit_of_every_lot():
    held = ledger(2, example_sampling="replacement")
    assert epsilon("client-server", held) == pytest.approx(gaussian_epsilon(3 * math.sqrt(6) / Z, DELTA), abs=1e-6)


def test_only_noise_on_each_example_covers_the_clients_memory():
    for draw, bare in (("sum", True), ("mean", True), ("each", False)):
        found = account(ledger(draw=draw, example_sampling="fixed-pass"), DELTA, "add-remove", "type2-known")
        assert (IN_MEMORY in found.caveats) == bare


def test_each_noised_example_is_seen_with_its_own_noise_only():
    held = ledger(1, draw="each", example_sampling="fixed-pass", touches=1)
    assert epsilon("server", held) == pytest.approx(gaussian_epsilon(1 / (Z * math.sqrt(2)), DELTA), abs=1e-9)
    for threat in ("type2-secret", "type2-known"):
        assert epsilon(threat, held) == pytest.approx(gaussian_epsilon(1 / Z, DELTA), abs=1e-9)


def with_counts(held, z):
    counts = (replace(r, part="count", sigmas=(z,), touches=1, surface=0, layers=1) for r in held.releases)
    return replace(held, releases=(*held.releases, *counts))


@pytest.mark.parametrize("threat", ["central", "central-visible"])
@pytest.mark.parametrize("changes", [{}, client(), client(1)])
def test_the_count_of_a_quantile_costs_its_share_and_all_of_it_without_noise(threat, changes):
    held = ledger(**changes)
    costs = [epsilon(threat, with_counts(held, z)) for z in (1e6, 20.0, 5.0, 0.0)]
    assert costs[0] == pytest.approx(epsilon(threat, held), rel=2e-2)
    assert costs == sorted(set(costs))
    assert costs[-1] == math.inf


@pytest.mark.parametrize("threat", ["server", "type2-secret", "type2-known", "client-server"])
def test_whoever_sees_the_counts_arrive_sees_them_bare(threat):
    found = account(with_counts(ledger(), 10.0), DELTA, "add-remove", threat)
    assert (found.epsilon, RAW_COUNT in found.caveats) == (math.inf, True)


def test_count_and_update_of_a_client_add_up_as_one_gaussian():
    held = with_counts(ledger(1, **client(cohort_rate=1.0)), 10.0)
    assert epsilon("central", held) == pytest.approx(gaussian_epsilon(math.hypot(1 / Z, 1 / 10), DELTA), abs=1e-9)


def test_a_fixed_pass_does_not_amplify_the_count_either():
    held = with_counts(ledger(1, example_sampling="fixed-pass", touches=1, cohort_rate=1.0), 10.0)
    assert epsilon("central", held) >= gaussian_epsilon(math.hypot(1 / Z, 1 / 10), DELTA) - GRID


@THREAT
@ADJACENCY
@pytest.mark.parametrize("changes", [{}, client(), {"ratio": math.inf}])
def test_a_guarantee_never_prints_a_bare_epsilon(threat, adjacency, changes):
    found = account(ledger(**changes), DELTA, adjacency, threat)
    unit = "client" if threat.startswith("client") or changes.get("unit") == "client" else "example"
    assert (found.unit, found.threat_model, found.adjacency, found.delta) == (unit, threat, adjacency, DELTA)
    text = str(found)
    assert all(word in text for word in (f"one {unit}", f"threat model {threat}", adjacency, "poisson batches"))
    assert f"{DELTA:g}" in text if found.finite else "no finite epsilon" in text


@THREAT
@pytest.mark.parametrize("held", [ledger(), ledger(ratio=math.inf), Ledger((), 0)], ids=["noisy", "bare", "empty"])
def test_a_guarantee_is_strict_json_with_null_for_infinity(threat, held):
    plain = account(held, DELTA, "add-remove", threat).plain()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["finite"] == (plain["epsilon"] is not None) == bool(not held.releases or held.releases[0].ratio == 1)
    named = {"epsilon", "finite", "delta", "unit", "threat_model", "adjacency", "sampling", "accountant"}
    assert set(plain) == named | {"noise_source", "caveats"}


@THREAT
def test_a_seed_and_what_is_not_covered_are_mentioned_with_every_guarantee(threat):
    secret, seeded = (account(ledger(source=s), DELTA, "add-remove", threat) for s in ("secret", "seeded"))
    assert guarantee.SEEDED in seeded.caveats
    assert guarantee.SEEDED not in secret.caveats
    assert (secret.epsilon, seeded.noise_source) == (seeded.epsilon, "seeded")
    assert {guarantee.PARAMETERS_ONLY, guarantee.SEARCH} <= set(secret.caveats)


def test_all_adversaries_are_answered_unless_some_are_named():
    known = [threat for threat in THREATS if threat != "alone"]  # a row of secure sums only
    assert [g.threat_model for g in guarantees(ledger(), DELTA, "add-remove")] == known
    assert [g.threat_model for g in guarantees(ledger(), DELTA, "add-remove", ["server"])] == ["server"]


def test_the_probability_that_a_batch_is_cut_is_kept_back_from_delta():
    """3 rounds of 3 batches at 1e-15 leave 1e-15 of a delta of 1e-14, and nothing of one of 9e-15."""
    kept = tight.pld([Step(Z, 0.1, 9)], 1e-12 - 9e-15)
    assert epsilon("server", ledger(), delta=1e-12) == pytest.approx(kept, rel=1e-6)
    assert epsilon("server", ledger(), delta=1e-14) > 1.02 * kept
    nothing = account(ledger(), 9e-15, "add-remove", "server")
    assert (nothing.epsilon, nothing.caveats[0]) == (math.inf, CUT)


def test_a_batch_of_everybody_is_never_cut():
    assert math.isfinite(epsilon("server", ledger(example_rate=1.0), delta=9e-15))


@pytest.mark.parametrize("sigma", [0.5, 0.7, 1.0])
def test_the_capacity_of_a_batch_makes_no_large_epsilon_infinite(sigma):
    """Above 21 these were infinite: the chance of a cut was multiplied by e^epsilon, which is not needed."""
    held = ledger(100, example_rate=0.3, sigmas=(sigma,) * 3)
    found = account(held, DELTA, "add-remove", "server")
    assert 21 < found.epsilon < math.inf
    assert CUT not in found.caveats


def test_a_batch_of_unknown_size_protects_no_client():
    for threat in ("client-central", "client-server"):
        found = account(ledger(capacity=0), DELTA, "add-remove", threat)
        assert (found.epsilon, UNKNOWN_BATCH in found.caveats) == (math.inf, True)
    assert math.isfinite(epsilon("server", ledger(capacity=0)))


@THREAT
def test_a_clip_whose_bound_is_learned_from_private_values_guarantees_nothing(threat):
    found = account(ledger(data_dependent=True, unsound_clip=True), DELTA, "add-remove", threat)
    assert (found.epsilon, found.caveats[0]) == (math.inf, UNSOUND_CLIP)


@THREAT
def test_what_a_run_presumes_stands_first_among_the_caveats(threat):
    held = replace(ledger(source="seeded"), caveats=("One.", "Two."))
    assert account(held, DELTA, "add-remove", threat).caveats[:2] == ("One.", "Two.")


def test_seeing_the_draws_costs_more_than_hiding_them_and_less_than_always_being_drawn():
    steps = [Step(8.0, 0.1, 20)]
    seen = pld_with_visible_draws(steps, DELTA)
    assert pld(steps, DELTA) < seen < pld([Step(8.0, 1.0, 20)], DELTA)
    assert pld_with_visible_draws([Step(8.0, 1.0, 20)], DELTA) == pld([Step(8.0, 1.0, 20)], DELTA)
    assert pld_with_visible_draws([Step(0.0, 0.1, 1)], DELTA) == math.inf


def test_the_multiplier_follows_bound_layers_draw_and_share():
    z = {draw: release(sigmas=(6.0,), draw=draw).noise_multipliers[0] for draw in ("sum", "each", "mean")}
    assert z == {"sum": 6.0, "each": pytest.approx(6 * math.sqrt(2)), "mean": 12.0}
    assert release(sigmas=(6.0,), layers=3).noise_multipliers == (pytest.approx(6 / math.sqrt(3)),)
    assert release(sigmas=(6.0,), ratio=2.0).noise_multipliers == (3.0,)
    assert release(sigmas=(6.0,), share=True).noise_multipliers == (3.0,)
    assert release(ratio=math.inf).noise_multipliers == release(ratio=0.0).noise_multipliers == (0.0, 0.0, 0.0)


def test_one_count_for_a_cohort_is_moved_by_every_copy_of_a_record():
    """A record that c clients of a cohort hold moves c sums by 1 / z each and the one count by c / z_count."""
    for copies in (1, 3, 10):
        held = with_counts(ledger(1, copies=copies, cohort_rate=1.0, example_sampling="fixed-pass", touches=1), 50.0)
        mu = math.hypot(math.sqrt(copies) / Z, copies / 50.0)
        for threat in ("central", "central-visible"):
            assert epsilon(threat, held) == pytest.approx(gaussian_epsilon(mu, DELTA), rel=1e-6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_noise_that_ends_before_it_hides_a_unit_covers_nothing(adjacency):
    """At z = 0.2 a unit moves a sum by 5 deviations: 2e-5 of the outcomes lie beyond 9.1, where the other has none."""
    little = account(ledger(1, sigmas=(0.2,), example_sampling="fixed-pass", touches=1), DELTA, adjacency, "server")
    assert (little.epsilon, little.caveats[0]) == (math.inf, NOISE_ENDS)
    more = ledger(1, sigmas=(0.6,), example_sampling="fixed-pass", touches=1)
    assert math.isfinite(epsilon("server", more, adjacency))


def test_the_end_of_the_noise_is_charged_to_delta():
    held = ledger(1, sigmas=(0.25,), example_sampling="fixed-pass", touches=1)
    charged = DELTA - norm.sf(9.1 - 4)
    assert charged < 0.99 * DELTA
    assert epsilon("server", held) == pytest.approx(gaussian_epsilon(4.0, charged), rel=1e-9)


def test_the_noise_reaches_the_end_that_is_counted_on():
    assert normals._far_magnitude(np.float32(2.0**-65)) > NOISE_END
