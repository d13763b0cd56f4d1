"""The epsilons that the paper prints, by its own rules (delta 1e-5, sigma 6), and ours where they do not come out."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from gradveil.accounting.as_paper import ACCOUNTANTS, LABEL, as_the_paper_accounts, plain_event
from gradveil.accounting.composition import advanced_as_coded, advanced_standard, base
from gradveil.accounting.concentrated import zcdp
from gradveil.accounting.moments import moments, rdp
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.steps import Step, grouped
from gradveil.accounting.tight import pld
from gradveil.privacy.schedule import Cyclic, Exponential, Linear, Staircase

DELTA, Q = 1e-5, 0.01
PER_STEP = math.sqrt(2 * math.log(1.25 / DELTA))
"""epsilon_0 of a step, times its sigma."""
MNIST = [Step(6.0, Q, 10_000)]


@pytest.mark.parametrize(
    ("steps", "printed"),
    [
        (10_000, 0.8227),
        (6_000, 0.6356),
        (1_000, 0.2760),
        (1_100, 0.2850),
        (6_700, 0.6719),
        (3_400, 0.4776),
        (500, 0.1841),
        (100, 0.0841),
    ],
)
def test_the_moments_accountant_gives_the_papers_epsilons_of_examples(steps, printed):
    assert moments([Step(6.0, Q, steps)], DELTA) == pytest.approx(printed, abs=6e-5)


@pytest.mark.parametrize(("steps", "printed"), [(101, 0.8536), (61, 0.6677), (11, 0.3025)])
def test_the_moments_accountant_gives_the_papers_epsilons_of_clients_with_one_step_more_than_rounds(steps, printed):
    assert moments([Step(6.0, 0.1, steps)], DELTA) == pytest.approx(printed, abs=6e-5)


@pytest.mark.parametrize(
    ("accountant", "expected", "within"),
    [
        (zcdp, 1.1588, 5e-5),
        (base, 123.457, 5e-4),
        (advanced_standard, 7.458, 5e-4),
        (advanced_as_coded, 6.686, 5e-4),
        (rdp, 0.659, 5e-4),
        (pld, 0.601, 5e-4),
    ],
)
def test_the_accountants_agree_with_their_known_value_on_mnist(accountant, expected, within):
    assert accountant(MNIST, DELTA) == pytest.approx(expected, abs=within)


def test_the_printed_base_and_advanced_values_belong_to_a_slightly_smaller_step():
    """123.354 and 7.450 both follow from epsilon' = 0.0123354, where the formula gives 0.0123457."""
    ours, theirs = base(MNIST, DELTA) / 10_000, 0.0123354
    assert ours == pytest.approx(0.0123457, abs=5e-8)
    by_hand = math.sqrt(2 * 10_000 * math.log(1 / DELTA)) * theirs + 10_000 * theirs * math.expm1(theirs)
    assert by_hand == pytest.approx(7.450, abs=2e-3)


def test_all_accountants_answer_at_once():
    assert set(plain_event(MNIST, DELTA)) == set(ACCOUNTANTS)
    assert plain_event(MNIST, DELTA)["moments"] == moments(MNIST, DELTA)
    assert plain_event([Step(0.0, Q, 1)], DELTA) == dict.fromkeys(ACCOUNTANTS)


def decay(kind, rounds=100):
    """Give sigma of each local step by the schedules in epsilon behind the paper's rows, rescaled to other T."""
    at = np.arange(100 * rounds) / (100 * rounds)
    epsilon = {
        "linear": at + 0.3074675,
        "staircase": 0.1 * np.floor(10 * at + 1e-9) + 0.3574675,
        "exponential": np.exp(1.664 * at - 1.1809),
    }[kind]
    return PER_STEP / epsilon


def exact_moments(sigmas):
    """Give the moments epsilon after every step, from the binomial sum for whole orders, with no rounding of sigma."""
    u, least = 0.5 / np.asarray(sigmas) ** 2, np.full(len(sigmas), np.inf)
    values, back = np.unique(u, return_inverse=True)
    for order in range(2, 64):
        k = np.arange(order + 1)
        chances = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        chances = chances + k * math.log(Q) + (order - k) * math.log1p(-Q)
        one = logsumexp(chances + np.outer(values, k * (k - 1.0)), axis=1) / (order - 1)
        least = np.minimum(least, np.cumsum(one[back]) + math.log(1 / DELTA) / (order - 1))
    return least


def rounds_until(spent, budget):
    """Give the round of 100 local steps in which the budget is first exceeded; spent: epsilon by number of steps."""
    low, high = 0, 10_000
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if spent(middle + 1) > budget else (middle + 1, high)
    return math.ceil((low + 1) / 100)


def spending(accountant, sigmas):
    return lambda steps: accountant(grouped(sigmas[:steps], Q), DELTA)


@pytest.mark.parametrize(
    ("kind", "by_base", "by_zcdp"), [("linear", 97, 95), ("staircase", 97, 95), ("exponential", 97, 96)]
)
def test_decay_exhausts_the_base_and_zcdp_budgets_in_the_papers_rounds(kind, by_base, by_zcdp):
    sigmas = decay(kind)
    assert rounds_until(spending(base, sigmas), 123.35) == by_base
    assert rounds_until(spending(base, sigmas), base(MNIST, DELTA)) == by_base
    assert rounds_until(spending(zcdp, sigmas), zcdp(MNIST, DELTA)) == by_zcdp


@pytest.mark.parametrize(("kind", "printed"), [("linear", 95), ("staircase", 95), ("exponential", 96)])
def test_decay_exhausts_the_moments_budget_in_the_papers_rounds(kind, printed):
    spent = exact_moments(decay(kind))
    assert rounds_until(lambda steps: spent[steps - 1], moments(MNIST, DELTA)) == printed


def test_ten_different_sigmas_are_not_rounded_so_the_staircase_is_exact():
    sigmas = decay("staircase")
    spent = exact_moments(sigmas)
    assert moments(grouped(sigmas, Q), DELTA) == pytest.approx(spent[-1], rel=1e-9)
    assert rounds_until(spending(moments, sigmas), moments(MNIST, DELTA)) == 95


def test_thousands_of_different_sigmas_exhaust_the_budget_never_late_and_at_most_a_round_early():
    """Sigmas are rounded down, so `moments` may spend faster than the exact sum, which lasts 95 rounds."""
    sigmas, budget = decay("linear"), moments(MNIST, DELTA)
    assert spending(moments, sigmas)(9_500) > budget
    assert spending(moments, sigmas)(9_300) <= budget


@pytest.mark.parametrize(("kind", "printed"), [("linear", 95), ("staircase", 95), ("exponential", 94)])
@pytest.mark.parametrize("budget", [7.45, advanced_standard(MNIST, DELTA)])
def test_the_papers_advanced_cells_are_a_budget_by_one_formula_spent_by_another(kind, printed, budget):
    assert rounds_until(spending(advanced_as_coded, decay(kind)), budget) == printed


@pytest.mark.parametrize("kind", ["linear", "staircase", "exponential"])
@pytest.mark.parametrize("accountant", [advanced_standard, advanced_as_coded])
def test_one_advanced_formula_for_both_gives_about_90_rounds(kind, accountant):
    assert rounds_until(spending(accountant, decay(kind)), accountant(MNIST, DELTA)) == 90


@pytest.mark.parametrize(
    ("rounds", "printed", "ours"), [(60, 55, {"linear": 57, "exponential": 57}), (10, 8, {"linear": 10})]
)
def test_the_decay_rounds_of_lfw_and_adult_are_ours_not_the_papers(rounds, printed, ours):
    for kind, expected in ours.items():
        spent = exact_moments(decay(kind, rounds))
        budget = moments([Step(6.0, Q, 100 * rounds)], DELTA)
        assert math.ceil((np.searchsorted(spent, budget, side="right") + 1) / 100) == expected != printed


def test_the_cyclic_rounds_are_ours_not_the_papers():
    """The paper prints 81/79/80/80 for one cycle of its formula from sigma_0 = 15."""
    sigmas = Cyclic(start=15.0).sigmas(100, 100).ravel()
    spent = exact_moments(sigmas)
    ours = (
        rounds_until(spending(base, sigmas[:9_000]), base(MNIST, DELTA)),
        rounds_until(spending(advanced_as_coded, sigmas[:9_000]), advanced_standard(MNIST, DELTA)),
        rounds_until(spending(zcdp, sigmas), zcdp(MNIST, DELTA)),
        rounds_until(lambda steps: spent[steps - 1], moments(MNIST, DELTA)),
    )
    assert ours == (79, 75, 79, 78)


@pytest.mark.parametrize(("schedule", "expected"), [(Linear, 0.571), (Staircase, 0.536), (Exponential, 0.634)])
def test_the_stated_decay_from_15_to_4_85_never_exhausts_the_budget(schedule, expected):
    sigmas = schedule(start=15.0, end=4.85).sigmas(100, 100).ravel()
    assert moments(grouped(sigmas, Q), DELTA) == pytest.approx(expected, abs=1e-3)


def test_cancers_two_epsilons_are_ours_not_the_papers():
    """The paper prints 0.138 for examples and 0.147 for clients; 0.147 is the value of examples at 300 steps."""
    assert moments([Step(6.0, Q, 300)], DELTA) == pytest.approx(0.1467, abs=5e-5)
    assert moments([Step(6.0, Q, 253)], DELTA) == pytest.approx(0.138, abs=5e-4)
    assert moments([Step(6.0, 0.1, 4)], DELTA) == pytest.approx(0.2065, abs=5e-5)
    assert moments([Step(6.0, 0.1, 3)], DELTA) == pytest.approx(0.1775, abs=5e-5)


def ledger(rounds, batch, size, unit="example"):
    example = unit == "example"
    return Ledger(
        tuple(
            Release(
                round=t,
                surface=2 if example else 0,
                unit=unit,
                part="sum",
                sigmas=(6.0,) * (100 if example else 1),
                ratio=1.0,
                layers=3,
                draw="sum",
                expected=batch,
                capacity=batch,
                client_size=500,
                share=False,
                example_sampling="fixed-pass",
                example_rate=batch / size,
                touches=1,
                cohort_sampling="fixed",
                cohort_rate=0.1,
                cohort=100,
                copies=10,
                data_dependent=True,
            )
            for t in range(rounds)
        ),
        rounds,
    )


@pytest.mark.parametrize(
    ("rounds", "batch", "size", "records", "used", "formula"),
    [
        (100, 5, 500, 60_000, 0.8227, 0.6836),
        (100, 4, 400, 50_000, 0.8227, 0.6559),
        (60, 3, 300, 2_267, 0.6356, 9.79),
        (10, 3, 300, 36_631, 0.2760, 0.2152),
        (3, 4, 400, 426, 0.1467, 16.8),
    ],
    ids=["mnist", "cifar10", "lfw", "adult", "cancer"],
)
def test_the_papers_own_formula_for_q_gives_other_epsilons_than_the_rate_it_used(
    rounds, batch, size, records, used, formula
):
    account = as_the_paper_accounts(ledger(rounds, batch, size), DELTA, records)
    first, second, _ = account["rows"]
    assert account["label"] == LABEL
    assert "not a guarantee" in LABEL
    assert account["moments"] == first["moments"] == pytest.approx(used, abs=6e-5)
    assert (first["q"], second["q"]) == (pytest.approx(0.01), pytest.approx(batch * 100 / records))
    assert second["moments"] == pytest.approx(formula, rel=1e-3)


def test_one_client_is_accounted_by_the_sum_over_its_local_steps_with_the_note_on_disjoint_data():
    per_client = as_the_paper_accounts(ledger(100, 5, 500), DELTA, 50_000)["rows"][2]
    assert per_client["base"] == pytest.approx(1.23457, abs=1e-5)
    assert per_client["steps"] == 100
    assert "disjoint" in per_client["meaning"]


@pytest.mark.parametrize(("rounds", "printed"), [(100, 0.8536), (60, 0.6677), (10, 0.3025)])
def test_a_clients_ledger_is_accounted_with_the_papers_extra_step(rounds, printed):
    account = as_the_paper_accounts(ledger(rounds, 100, 500, "client"), DELTA, 50_000)
    assert account["moments"] == pytest.approx(printed, abs=6e-5)
    assert (account["q"], account["steps"]) == (0.1, rounds + 1)


def test_the_paper_has_nothing_to_say_without_noise():
    assert as_the_paper_accounts(Ledger((), 0), DELTA, 10) == {}


@pytest.mark.parametrize(("decay", "rounds"), [("linear", 95), ("staircase", 95), ("exponential", 96)])
def test_the_moments_accountant_itself_exhausts_the_budget_in_the_printed_round(decay, rounds):
    step = np.arange(10_000)
    per_step = {
        "linear": step / 10_000 + 0.3074675,
        "staircase": 0.1 * (step // 1_000) + 0.3574675,
        "exponential": np.exp(1.664 * step / 10_000 - 1.1809),
    }[decay]
    sigmas = (math.sqrt(2 * math.log(1.25e5)) / per_step).tolist()
    before, after = (moments(grouped(sigmas[: 100 * t], 0.01), 1e-5) for t in (rounds - 1, rounds))
    assert before <= 0.8227 < after
