"""Scores of an attack: its reconstruction compared with the truth, and with a guess that uses no gradient.

The baseline reads no gradient: it is the public mean (for table rows, the most frequent categories and the median
numbers). The gain of an attack is what it improves on that.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gradveil.attacks.attack import Reconstruction
from gradveil.attacks.labels import listed
from gradveil.attacks.leak import Host, Leak
from gradveil.attacks.metrics import assigned, features_right, interval, nearest, overlap, psnr, rmse, ssim

OTHERS = 1000
"""Public examples, of which a guess may be nearest to none but to its truth."""


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The examples behind a reading: x [n, ...], y [n]."""

    x: Host
    y: Host


@dataclass(frozen=True, slots=True)
class Moment:
    """One snapshot for a success rule: errors after and before clamping, the attack's loss, its iterations."""

    error: float
    unclamped: float
    loss: float
    iterations: int


@dataclass(frozen=True, slots=True)
class SuccessRule:
    """When a guess counts as a success, and what that means; `ever`: at any moment rather than at the end."""

    meaning: str
    passes: Callable[[Moment], bool]
    ever: bool = False


RULES: dict[str, SuccessRule] = {
    "default": SuccessRule("RMSE of the clamped guess at most 0.1 (20 dB)", lambda m: m.error <= 0.1),
    "paper": SuccessRule(
        "RMSE of the unclamped guess below 0.6 within 300 iterations: reproduces the paper's Y and N, and the mean "
        "picture passes it",
        lambda m: m.unclamped < 0.6 and m.iterations <= 300,
        ever=True,
    ),
    "loss": SuccessRule("distance between the gradients at most 1e-4, which needs no truth", lambda m: m.loss <= 1e-4),
}


@dataclass(frozen=True, slots=True)
class VictimScore:
    """One victim, judged. Errors are means over its examples; rates are shares of them.

    iterations and evaluations: to the first snapshot that passes the rule, or all that were spent where none does.
    label_accuracy: shares of labels that agree, order aside; label_prior: those of the public proportions.
    prior_rmse: of the public mean. class_mean_rmse: of the public mean of the true class. gain: prior_rmse - rmse.
    client: which client it was, where that is known. fitted: whether the guess explains what was read, null where the
    attack cannot tell.
    """

    success: bool
    rmse: float
    mse: float
    rmse_unclamped: float
    psnr: float
    ssim: float | None
    prior_rmse: float
    class_mean_rmse: float
    gain: float
    iterations: int
    evaluations: int
    label_accuracy: float | None
    label_prior: float
    nearest_is_truth: float
    feature_accuracy: float | None
    feature_baseline: float | None
    loss: float
    attempts: int
    diverged: int
    seconds: float
    fitted: bool | None = None
    client: int | None = None


def judge(result: Reconstruction, truth: Truth, leak: Leak, rule: SuccessRule) -> VictimScore:
    """Judge the last guess of an attack; guesses are paired with the truth by least squares."""
    low, high = limits(leak)
    last = np.clip(np.nan_to_num(result.x[-1]), low, high)
    mine, theirs = assigned(last, truth.x)
    guesses, truths = last[mine], truth.x[theirs]
    errors = rmse(guesses, truths)
    moments = [_moment(result, s, mine, truths, low, high) for s in range(len(result.x))]
    passed = [rule.passes(m) for m in moments]
    success = any(passed) if rule.ever else passed[-1]
    reached = passed.index(True) if success else len(moments) - 1
    prior = np.sort(rmse(np.broadcast_to(prior_guess(leak), truth.x.shape), truth.x))[: len(mine)]
    others = leak.public.x[:OTHERS]
    return VictimScore(
        success=success,
        rmse=float(errors.mean()),
        mse=float(np.square(errors).mean()),
        rmse_unclamped=moments[-1].unclamped,
        psnr=psnr(float(errors.mean())),
        ssim=_mean([ssim(g, t) for g, t in zip(guesses, truths, strict=True)]) if truths.ndim == 4 else None,
        prior_rmse=float(prior.mean()),
        class_mean_rmse=float(rmse(_class_means(leak, truth.y), truth.x).mean()),
        gain=float(prior.mean() - errors.mean()),
        iterations=moments[reached].iterations,
        evaluations=int(result.evaluations[reached]),
        label_accuracy=None if result.labels is None else overlap(result.labels, truth.y, leak.stage.classes),
        label_prior=overlap(_usual_labels(leak, len(truth.y)), truth.y, leak.stage.classes),
        nearest_is_truth=_mean([nearest(g, t, others) for g, t in zip(guesses, truths, strict=True)]),
        feature_accuracy=_features(leak, guesses, truths),
        feature_baseline=_features(leak, np.broadcast_to(prior_guess(leak), truths.shape), truths),
        loss=float(result.loss[-1]) if result.finite else 1e30,
        attempts=result.attempts,
        diverged=result.diverged,
        seconds=result.seconds,
        fitted=result.fitted,
    )


def limits(leak: Leak) -> tuple[Host, Host]:
    """Return the range that guesses are clamped to: [0, 1] for pictures, that of public examples for tables."""
    if len(leak.stage.shape) == 3:
        return np.zeros(1, np.float32), np.ones(1, np.float32)
    return leak.public.x.min(axis=0), leak.public.x.max(axis=0)


def prior_guess(leak: Leak) -> Host:
    """Return the guess of an attacker without a reading: the public mean, or for tables the marginal modes."""
    mean: Host = leak.public.x.mean(axis=0)
    if not leak.stage.columns:
        return mean
    guess = np.zeros_like(mean)
    for column in leak.stage.columns:
        part = slice(column.start, column.stop)
        if column.stop - column.start == 1:
            guess[part] = np.median(leak.public.x[:, part])
        else:
            guess[column.start + int(np.argmax(mean[part]))] = 1.0
    return guess


def _moment(result: Reconstruction, s: int, mine: Host, truths: Host, low: Host, high: Host) -> Moment:
    with np.errstate(over="ignore", invalid="ignore"):
        raw = result.x[s][mine]
        unclamped = float(rmse(raw, truths).mean())
        error = float(rmse(np.clip(np.nan_to_num(raw), low, high), truths).mean())
    safe = unclamped if np.isfinite(unclamped) else 1e30
    return Moment(error, safe, float(result.loss[s]), int(result.iterations[s]))


def _class_means(leak: Leak, labels: Host) -> Host:
    x, y, mean = leak.public.x, leak.public.y, leak.public.x.mean(axis=0)
    by_class = {c: x[y == c].mean(axis=0) if np.any(y == c) else mean for c in np.unique(labels)}
    return np.stack([by_class[c] for c in labels])


def _usual_labels(leak: Leak, n: int) -> Host:
    """Return n labels in the public proportions of the classes: the guess of an attacker without a reading."""
    return listed(np.bincount(leak.public.y, minlength=leak.stage.classes) / len(leak.public.y), n)


def _features(leak: Leak, guesses: Host, truths: Host) -> float | None:
    if not leak.stage.columns:
        return None
    spread = leak.public.x.std(axis=0)
    return _mean(
        [features_right(g, t, leak.stage.columns, spread).mean() for g, t in zip(guesses, truths, strict=True)]
    )


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values))


def summary(verdicts: Sequence[VictimScore]) -> dict[str, Any]:
    """Return means over victims, the gain with its 95 % interval, and resilience by the paper's rule.

    The gain is that of the victims whose reading was fitted, of all where none was: elsewhere it says nothing.
    """

    def mean(name: str) -> float | None:
        values = [getattr(v, name) for v in verdicts if getattr(v, name) is not None]
        return _mean(values) if values else None

    fitted = [v.gain for v in verdicts if v.fitted is not False]
    return {
        "success_rate": mean("success"),
        "mean_rmse": mean("rmse"),
        "mean_mse": mean("mse"),
        "mean_rmse_unclamped": mean("rmse_unclamped"),
        "mean_psnr": mean("psnr"),
        "mean_ssim": mean("ssim"),
        "prior_rmse": mean("prior_rmse"),
        "class_mean_rmse": mean("class_mean_rmse"),
        "gain": _mean(fitted) if fitted else mean("gain"),
        "gain_ci": interval(fitted) if fitted else None,
        "resilient_by_the_papers_rule": _mean([v.rmse_unclamped >= 0.6 for v in verdicts]) >= 0.5,
        "mean_iterations": mean("iterations"),
        "mean_evaluations": mean("evaluations"),
        "label_accuracy": mean("label_accuracy"),
        "label_prior": mean("label_prior"),
        "identification": mean("nearest_is_truth"),
        "feature_accuracy": mean("feature_accuracy"),
        "feature_baseline": mean("feature_baseline"),
        "diverged": sum(v.diverged for v in verdicts),
        "not_fitted": sum(v.fitted is False for v in verdicts),
        "per_victim": [asdict(v) for v in verdicts],
    }
