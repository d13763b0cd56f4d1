"""The referee and its measures, against loops, brute force and figures worked out by hand."""

import json
import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from gradveil.attacks.attack import Reconstruction
from gradveil.attacks.leak import Column, Leak, Public, Reading, Stage
from gradveil.attacks.metrics import assigned, features_right, interval, nearest, overlap, psnr, rmse, ssim
from gradveil.attacks.score import RULES, Truth, judge, prior_guess, summary
from gradveil.models.networks import Mlp
from gradveil.surface import Surface

PICTURE, ROW, CLASSES = (6, 6, 1), (10,), 3
COLUMNS = (Column("kind", 0, 3), *(Column(f"number {i}", i, i + 1) for i in range(3, 8)), Column("side", 8, 10))
DEFAULT, PAPER, LOSS = (RULES[name] for name in ("default", "paper", "loss"))


def stage(shape=PICTURE, columns=()):
    return Stage(
        model=Mlp(hidden=(12,), bias=True),
        shape=shape,
        classes=CLASSES,
        surface=Surface.EXAMPLE,
        view="released",
        batch=1,
        steps=1,
        replay=lambda params, clip_state, x, y: params,
        columns=columns,
    )


NOTHING = (Reading((), (), (), ()),)


def pictures(n, seed):
    return np.random.default_rng(seed).uniform(size=(n, *PICTURE)).astype(np.float32)


def table_rows(n, seed):
    """Rows of two levels and five numbers in [0, 4]."""
    random = np.random.default_rng(seed)
    levels = [np.eye(size)[random.choice(size, n, p=p)] for size, p in ((3, (0.2, 0.7, 0.1)), (2, (0.4, 0.6)))]
    return np.concatenate([levels[0], random.uniform(0, 4, (n, 5)), levels[1]], axis=1).astype(np.float32)


SCENE = Leak(stage(), NOTHING, Public(pictures(50, seed=0), np.arange(50) % CLASSES))
TABLE = Leak(stage(ROW, COLUMNS), NOTHING, Public(table_rows(51, seed=0), np.arange(51) % CLASSES))


def found(snapshots, labels=None, loss=None, iterations=None, **others):
    """What an attack brought home, by default with losses and iterations 1, 2, 3 and so on."""
    count = 1 + np.arange(len(snapshots))
    loss = count.astype(float) if loss is None else np.asarray(loss, float)
    iterations = count if iterations is None else np.asarray(iterations)
    return Reconstruction(np.stack(snapshots), labels, loss, iterations, 10 * iterations, **others)


def apart(x, error):
    """A guess whose root mean squared difference to every example is `error`."""
    return (x + np.float32(error) * np.sign(0.5 - x)).astype(np.float32)


# Measures


def test_the_error_is_the_root_of_the_mean_square_of_each_example():
    a, b = pictures(4, seed=1), pictures(4, seed=2)
    expected = [
        math.sqrt(sum((float(u) - float(v)) ** 2 for u, v in zip(a[n].ravel(), b[n].ravel(), strict=True)) / 36)
        for n in range(4)
    ]
    np.testing.assert_allclose(rmse(a, b), expected, rtol=1e-12)
    assert rmse(a, a).tolist() == [0, 0, 0, 0]
    assert rmse(np.zeros((1, 4)), np.array([[1.0, 1.0, 1.0, 3.0]])) == pytest.approx(math.sqrt(3))


@pytest.mark.parametrize(("error", "decibels"), [(1.0, 0), (0.1, 20), (0.01, 40), (0.5, 6.0206), (0, 100), (1e-9, 100)])
def test_decibels(error, decibels):
    assert psnr(error) == pytest.approx(decibels, abs=1e-4)


def slow_ssim(a, b, side):
    """One window and one channel at a time."""
    values = []
    for i, j, c in product(range(a.shape[0] - side + 1), range(a.shape[1] - side + 1), range(a.shape[2])):
        u = [float(a[i + k, j + m, c]) for k, m in product(range(side), repeat=2)]
        v = [float(b[i + k, j + m, c]) for k, m in product(range(side), repeat=2)]
        n, m_u, m_v = len(u), sum(u) / len(u), sum(v) / len(v)
        v_u, v_v = (sum((s - m) ** 2 for s in w) / (n - 1) for w, m in ((u, m_u), (v, m_v)))
        cov = sum((s - m_u) * (t - m_v) for s, t in zip(u, v, strict=True)) / (n - 1)
        like = (2 * m_u * m_v + 1e-4) * (2 * cov + 9e-4)
        values.append(like / ((m_u**2 + m_v**2 + 1e-4) * (v_u + v_v + 9e-4)))
    return sum(values) / len(values)


@pytest.mark.parametrize(("shape", "side"), [((12, 9, 3), 7), ((8, 11, 1), 4), ((6, 6, 1), 7), ((5, 9, 2), 7)])
def test_similarity_is_that_of_the_windows(shape, side):
    random = np.random.default_rng(0)
    a = random.uniform(size=shape).astype(np.float32)
    b = np.clip(a + 0.2 * random.normal(size=shape), 0, 1).astype(np.float32)
    # A picture smaller than the window is one window of its shorter side.
    assert ssim(a, b, side) == pytest.approx(slow_ssim(a, b, min(side, *shape[:2])), rel=1e-6)
    assert ssim(a, a, side) == pytest.approx(1)
    assert ssim(a, 1 - a, side) < 0


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 4), (5, 5), (2, 5), (5, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_those_of_the_best_permutation(m, n, seed):
    random = np.random.default_rng([m, n, seed])
    guesses, truths = random.normal(size=(m, 2, 2)), random.normal(size=(n, 2, 2))
    few = min(m, n)
    totals = {
        (mine, theirs): sum(((guesses[i] - truths[j]) ** 2).sum() for i, j in zip(mine, theirs, strict=True))
        for mine in ([tuple(range(m))] if m <= n else list(permutations(range(m), few)))
        for theirs in ([tuple(range(n))] if n < m else list(permutations(range(n), few)))
    }
    best = min(totals, key=totals.get)
    mine, theirs = assigned(guesses, truths)
    assert sorted(zip(mine, theirs, strict=True)) == sorted(zip(*best, strict=True))


def test_a_guess_is_nearest_to_its_truth_if_no_other_is_as_near():
    truth, others = np.zeros((2, 2)), np.array([[[1.0, 0], [0, 0]], [[0, 3.0], [0, 0]]])
    assert nearest(np.array([[0.49, 0], [0, 0]]), truth, others)
    assert not nearest(np.array([[0.51, 0], [0, 0]]), truth, others)
    assert not nearest(np.array([[0.5, 0], [0, 0]]), truth, others)
    assert not nearest(np.array([[0, 2.0], [0, 0]]), truth, others)


@pytest.mark.parametrize(
    ("mine", "true", "share"),
    [
        ([0, 1, 2], [2, 1, 0], 1),
        ([0, 0, 0], [0, 1, 2], 1 / 3),
        ([0, 0, 1, 1], [0, 1], 1),
        ([0], [0, 0, 1], 2 / 3),
        ([1], [0], 0),
    ],
)
def test_labels_agree_in_any_order(mine, true, share):
    assert overlap(np.array(mine), np.array(true), 3) == pytest.approx(share)


def test_a_level_is_right_if_it_is_the_largest_and_a_number_if_it_is_near():
    truth = np.array([0.0, 1.0, 0.0, 2.0, 2.0, 2.0, 1.0, 0.0])
    guess = np.array([0.2, 0.4, 0.3, 2.31, 2.33, 1.7, 0.4, 0.6])
    columns = [Column("a", 0, 3), Column("b", 3, 4), Column("c", 4, 5), Column("d", 5, 6), Column("e", 6, 8)]
    spread = np.array([9.0, 9, 9, 1.0, 1.0, 0.5, 9, 9])
    assert features_right(guess, truth, columns, spread).tolist() == [True, True, False, False, False]
    assert features_right(truth, truth, columns, spread).all()


def test_a_category_that_is_missing_is_right_where_none_was_rebuilt():
    """All zeros have no largest one: rounding error must not decide whether a rebuilt row is right."""
    kind = (Column("kind", 0, 3),)
    guesses = {"rounding": [0.0, -1e-8, 1e-8], "zeros": [0.0, 0.0, 0.0], "another": [0.0, 0.0, 1.0]}
    right = {k: bool(features_right(np.array(g), np.zeros(3), kind, np.ones(3))[0]) for k, g in guesses.items()}
    assert right == {"rounding": True, "zeros": True, "another": False}


def test_the_interval_of_a_mean_is_students():
    # mean 3, deviation sqrt(2.5), t(0.975; 4) = 2.776445
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776445 * math.sqrt(2.5) / math.sqrt(5)
    assert (low, high) == pytest.approx((3 - half, 3 + half), rel=1e-6)
    assert interval([1.0, 3.0]) == pytest.approx((2 - 12.7062, 2 + 12.7062), rel=1e-5)
    assert interval([1.0]) is None
    assert interval([]) is None


# The referee


@pytest.mark.parametrize("leak", [SCENE, TABLE], ids=["pictures", "table"])
@pytest.mark.parametrize("n", [1, 3])
def test_whoever_answers_with_what_is_public_gains_nothing(leak, n):
    truth = Truth((pictures if leak is SCENE else table_rows)(n, seed=9), np.arange(n))
    guess = np.broadcast_to(prior_guess(leak), truth.x.shape)
    verdict = judge(found([guess]), truth, leak, DEFAULT)
    assert abs(verdict.gain) <= (0 if n == 1 else 1e-15)  # a batch is added up in another order
    assert verdict.rmse == pytest.approx(verdict.prior_rmse)
    assert verdict.feature_accuracy == verdict.feature_baseline
    assert not verdict.success


def test_the_public_answer_is_the_mean_or_the_commonest_levels_and_the_medians():
    assert prior_guess(SCENE) == pytest.approx(SCENE.public.x.mean(axis=0))
    guess = prior_guess(TABLE)
    assert guess[:3].tolist() == [0, 1, 0]
    assert guess[8:].tolist() == [0, 1]
    assert guess[3:8].tolist() == [sorted(TABLE.public.x[:, i])[25] for i in range(3, 8)]


@pytest.mark.parametrize("leak", [SCENE, TABLE], ids=["pictures", "table"])
def test_the_truth_itself_is_a_full_success(leak):
    mean = leak.public.x.mean(axis=0)
    truth = Truth(mean + np.float32(0.999) * (leak.public.x[:3] - mean), np.array([0, 1, 2]))
    verdict = judge(found([truth.x], truth.y, loss=[0.0]), truth, leak, DEFAULT)
    assert verdict.success
    assert verdict.rmse == verdict.mse == verdict.rmse_unclamped == verdict.loss == 0
    assert verdict.psnr == 100
    assert verdict.gain == verdict.prior_rmse > 0.1
    assert verdict.label_accuracy == verdict.nearest_is_truth == 1
    assert verdict.ssim == (pytest.approx(1) if leak is SCENE else None)
    assert verdict.feature_accuracy == (None if leak is SCENE else 1)


def test_the_verdict_is_worked_out_by_hand():
    truth = Truth(np.full((2, *PICTURE), 0.5, np.float32), np.array([0, 1]))
    guess = truth.x + np.float32([0.25, 0.75]).reshape(2, 1, 1, 1)
    guess[1, :3] = -4  # half is clamped at 0 and half at 1
    flat = Leak(SCENE.stage, NOTHING, Public(np.full((4, *PICTURE), 0.625, np.float32), np.array([0, 0, 2, 2])))
    flat.public.x[:2] = 0.75
    verdict = judge(found([guess], np.array([0, 0]), attempts=4, diverged=2, seconds=1.5), truth, flat, DEFAULT)
    assert verdict.rmse == pytest.approx((0.25 + 0.5) / 2)
    assert verdict.mse == pytest.approx((0.25**2 + 0.5**2) / 2)
    assert verdict.rmse_unclamped == pytest.approx((0.25 + math.sqrt((4.5**2 + 0.75**2) / 2)) / 2)
    assert verdict.psnr == pytest.approx(-20 * math.log10(0.375))
    assert verdict.prior_rmse == pytest.approx(0.1875)
    assert verdict.class_mean_rmse == pytest.approx((0.25 + 0.1875) / 2)  # class 1 has no public example
    assert verdict.gain == pytest.approx(0.1875 - 0.375)
    assert verdict.label_accuracy == 0.5
    assert verdict.nearest_is_truth == 0.5  # the first is a public picture
    assert (verdict.attempts, verdict.diverged, verdict.seconds) == (4, 2, 1.5)


def test_guesses_in_another_order_are_matched_to_their_truths():
    truth = Truth(pictures(4, seed=3), np.array([0, 1, 2, 0]))
    shuffled = found([apart(truth.x, 0.05)[[2, 0, 3, 1]]], truth.y[[2, 0, 3, 1]])
    verdict = judge(shuffled, truth, SCENE, DEFAULT)
    assert verdict.rmse == pytest.approx(0.05, rel=1e-4)
    assert verdict.rmse_unclamped == pytest.approx(0.05, rel=1e-4)
    assert verdict.label_accuracy == 1
    assert verdict.success


def test_fewer_guesses_than_truths_are_compared_with_as_many_public_answers():
    truth = Truth(np.stack([np.full(PICTURE, v, np.float32) for v in (0.5, 0.0, 1.0)]), np.array([0, 1, 2]))
    flat = Leak(SCENE.stage, NOTHING, Public(np.full((4, *PICTURE), 0.6, np.float32), np.array([0, 1, 2, 0])))
    verdict = judge(found([np.full((1, *PICTURE), 0.9, np.float32)]), truth, flat, DEFAULT)
    assert verdict.rmse == pytest.approx(0.1)  # the guess is paired with 1.0
    assert verdict.prior_rmse == pytest.approx(0.1)  # and the public answer with 0.5
    more = judge(found([np.stack([truth.x[1], 0.5 - truth.x[0], truth.x[2], truth.x[0]])]), truth, flat, DEFAULT)
    assert more.rmse == 0


@pytest.mark.parametrize(("leak", "low", "high"), [(SCENE, 0, 1), (TABLE, None, None)], ids=["pictures", "table"])
def test_guesses_are_clamped_to_what_examples_may_be(leak, low, high):
    rows = leak.public.x[:1]
    low, high = (leak.public.x.min(axis=0), leak.public.x.max(axis=0)) if low is None else (low, high)
    guess = np.where(np.arange(rows.size).reshape(rows.shape) % 2 == 0, 7, -7).astype(np.float32)
    verdict = judge(found([guess]), Truth(rows, np.array([0])), leak, DEFAULT)
    assert verdict.rmse == pytest.approx(rmse(np.where(guess > 0, high, low), rows)[0])
    assert verdict.rmse_unclamped == pytest.approx(rmse(guess, rows)[0])


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e38])
def test_guesses_that_are_no_numbers_are_judged_as_black_or_white(garbage):
    truth = Truth(pictures(2, seed=4), np.array([0, 1]))
    guess = truth.x.copy()
    guess[1] = garbage
    verdict = judge(found([guess], truth.y, loss=[garbage], diverged=3, attempts=3), truth, SCENE, PAPER)
    value = 1.0 if garbage > 0 else 0.0
    assert verdict.rmse == pytest.approx(rmse(np.full((1, *PICTURE), value), truth.x[1:])[0] / 2)
    assert verdict.rmse_unclamped > 1e30 / 2
    assert not verdict.success
    assert verdict.loss == 1e30
    json.dumps(summary([verdict]), allow_nan=False)


ERRORS = {"default": (0.3, 0.08, 0.2, 0.09, 0.05), "paper": (0.7, 0.5, 0.8, 0.55, 0.4)}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("steps", [5, 3, 1])
def test_iterations_are_counted_to_the_first_snapshot_that_passes_if_the_last_one_does(name, steps):
    truth = Truth(pictures(1, seed=5), np.array([0]))
    went = found([apart(truth.x, error) for error in ERRORS[name][:steps]], iterations=[0, 7, 12, 20, 31][:steps])
    verdict = judge(went, truth, SCENE, RULES[name])
    # The paper's rule asks whether the error ever was small enough, ours whether it ended so.
    ever = name == "paper"
    assert verdict.success == (steps == 5 or (ever and steps == 3))
    missed = (7, 70) if ever else (12, 120)
    assert (verdict.iterations, verdict.evaluations) == {5: (7, 70), 3: missed, 1: (0, 0)}[steps]


def test_the_rule_of_the_paper_looks_at_the_unclamped_guess_within_300_iterations():
    truth = Truth(np.full((1, *PICTURE), 0.5, np.float32), np.array([0]))
    for error, iterations, passes in ((0.59, 300, True), (0.61, 300, False), (0.59, 301, False)):
        verdict = judge(found([truth.x + np.float32(error)], iterations=[iterations]), truth, SCENE, PAPER)
        assert verdict.success == passes
        assert verdict.rmse == pytest.approx(0.5)
    assert judge(found([SCENE.public.x.mean(axis=0)[None]]), truth, SCENE, PAPER).success  # as its meaning says


def test_the_default_rule_is_20_decibels():
    truth = Truth(np.full((1, *PICTURE), 0.5, np.float32), np.array([0]))
    assert judge(found([truth.x + np.float32(0.0999)]), truth, SCENE, DEFAULT).success
    assert not judge(found([truth.x + np.float32(0.1001)]), truth, SCENE, DEFAULT).success


def test_the_rule_by_loss_needs_no_truth():
    truth = Truth(pictures(1, seed=6), np.array([0]))
    assert judge(found([1 - truth.x], loss=[1e-4]), truth, SCENE, LOSS).success
    assert not judge(found([truth.x], loss=[1.1e-4]), truth, SCENE, LOSS).success
    assert not judge(found([truth.x], loss=[np.nan]), truth, SCENE, LOSS).success


def verdicts(*gains):
    """Verdicts that differ in their gain alone."""
    truth = Truth(pictures(1, seed=7), np.array([0]))
    one = judge(found([truth.x], truth.y), truth, SCENE, DEFAULT)
    return [replace(one, gain=gain) for gain in gains]


@pytest.mark.parametrize("gains", [(0.1, 0.11, 0.12, 0.1), (-0.1, -0.12, -0.11), (0.3, -0.1, 0.2), (0.2,)])
def test_the_gain_is_a_mean_over_victims_with_its_interval(gains):
    record = summary(verdicts(*gains))
    assert record["gain"] == pytest.approx(np.mean(gains))
    assert record["gain_ci"] == (None if len(gains) < 2 else pytest.approx(list(interval(gains))))


@pytest.mark.parametrize(("unclamped", "resilient"), [((0.5, 0.61, 0.7), True), ((0.5, 0.59, 1e9), False)])
def test_the_papers_resilience_is_an_unclamped_error_of_06_for_most_victims(unclamped, resilient):
    three = [replace(v, rmse_unclamped=e) for v, e in zip(verdicts(0, 0, 0), unclamped, strict=True)]
    assert summary(three)["resilient_by_the_papers_rule"] is resilient


def test_a_summary_holds_means_over_victims_and_every_victim():
    one, other = verdicts(0.1, 0.3)
    other = replace(
        other, success=False, rmse=0.5, psnr=6.0, iterations=301, label_accuracy=None, nearest_is_truth=0.0, diverged=2
    )
    record = summary([one, replace(other, feature_accuracy=0.5)])
    assert record["success_rate"] == 0.5
    assert record["mean_rmse"] == 0.25
    assert record["mean_psnr"] == 53
    assert record["mean_iterations"] == 151
    assert record["label_accuracy"] == 1  # of the one that has it
    assert record["identification"] == 0.5
    assert record["feature_accuracy"] == 0.5
    assert record["feature_baseline"] is None
    assert record["diverged"] == 2
    assert [victim["gain"] for victim in record["per_victim"]] == [0.1, 0.3]


@pytest.mark.parametrize("leak", [SCENE, TABLE], ids=["pictures", "table"])
@pytest.mark.parametrize("rule", RULES)
def test_a_summary_is_json_without_special_numbers(leak, rule):
    truth = Truth(leak.public.x[:2], leak.public.y[:2])
    tries = [found([truth.x], labels) for labels in (None, np.array([0, 1]))]
    tries.append(found([np.full_like(truth.x, np.nan)], loss=[np.inf]))
    record = summary([judge(one, truth, leak, RULES[rule]) for one in tries])
    assert json.loads(json.dumps(record, allow_nan=False))["success_rate"] == record["success_rate"]
