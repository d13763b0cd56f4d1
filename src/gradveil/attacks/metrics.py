"""How near a guess is to an example: pure functions of arrays, for pictures and for table rows."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import uniform_filter
from scipy.optimize import linear_sum_assignment
from scipy.stats import t as student

from gradveil.attacks.leak import Column, Host


def rmse(guess: Host, truth: Host) -> Host:
    """Return the root of the mean squared difference of each example, [n, ...] twice -> [n]."""
    squares = np.square(guess.astype(np.float64) - truth).reshape(len(truth), -1)
    errors: Host = np.sqrt(squares.mean(axis=1))
    return errors


def psnr(error: float) -> float:
    """Return -20 log10(RMSE), the peak signal-to-noise ratio in dB of pictures in [0, 1]; at most 100."""
    return min(100.0, -20 * math.log10(max(error, 1e-5)))


def ssim(guess: Host, truth: Host, side: int = 7) -> float:
    """Return the structural similarity of two pictures [h, w, c] in [0, 1], over windows of side x side, 1 if equal.

    mean over windows and channels of (2 m_a m_b + k1)(2 cov + k2) / ((m_a^2 + m_b^2 + k1)(v_a + v_b + k2)),
    k1 = 0.01^2, k2 = 0.03^2, with unbiased variances; windows lie wholly inside the picture.
    """
    a, b = guess.astype(np.float64), truth.astype(np.float64)
    side = min(side, *a.shape[:2])
    edge, size = side // 2, (side, side, 1)
    inside = (slice(edge, a.shape[0] - (side - 1 - edge)), slice(edge, a.shape[1] - (side - 1 - edge)))
    unbiased = side**2 / max(side**2 - 1, 1)

    def mean(values: Host) -> Host:
        smooth: Host = uniform_filter(values, size)[inside]
        return smooth

    m_a, m_b = mean(a), mean(b)
    v_a, v_b, cov = (
        unbiased * (mean(u * v) - p * q) for u, v, p, q in ((a, a, m_a, m_a), (b, b, m_b, m_b), (a, b, m_a, m_b))
    )
    k1, k2 = 0.01**2, 0.03**2
    ratio = (2 * m_a * m_b + k1) * (2 * cov + k2) / ((m_a**2 + m_b**2 + k1) * (v_a + v_b + k2))
    return float(ratio.mean())


def assigned(guesses: Host, truths: Host) -> tuple[Host, Host]:
    """Pair m guesses with n truths so that the squared differences add up to the least: indices [min(m, n)] each."""
    m, n = len(guesses), len(truths)
    a, b = guesses.reshape(m, -1).astype(np.float64), truths.reshape(n, -1).astype(np.float64)
    cost = np.square(a).sum(1)[:, None] + np.square(b).sum(1)[None] - 2 * a @ b.T
    return linear_sum_assignment(cost)


def nearest(guess: Host, truth: Host, others: Host) -> bool:
    """Return whether a guess is nearer to its truth than to every other example."""
    to_others = np.square(others.reshape(len(others), -1) - guess.reshape(1, -1)).sum(axis=1)
    return bool(np.square(truth - guess).sum() < to_others.min(initial=np.inf))


def overlap(inferred: Host, true: Host, classes: int) -> float:
    """Return the share of labels that agree if order does not matter: sum_c min(share inferred, share true)."""
    shares = [np.bincount(labels, minlength=classes) / len(labels) for labels in (inferred, true)]
    return float(np.minimum(*shares).sum())


def features_right(guess: Host, truth: Host, columns: Sequence[Column], spread: Host) -> Host:
    """Return for each feature of a table row whether it was reconstructed, bool [features].

    A category is right if it is the largest of its feature; where it is missing, which is all zeros, if none of the
    guesses for it reaches a half. A number is right if it is within 0.319 deviations, which a normal guess at the mean
    meets in a quarter of cases (the rule of TabLeak).
    """
    return np.array([_right(guess[c.start : c.stop], truth[c.start : c.stop], spread[c.start]) for c in columns])


def _right(guess: Host, truth: Host, deviation: float) -> bool:
    if len(guess) > 1 and not truth.any():
        return bool(guess.max() < 0.5)
    if len(guess) > 1:
        return bool(np.argmax(guess) == np.argmax(truth))
    return bool(abs(guess[0] - truth[0]) <= 0.319 * deviation)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean by Student's t; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    half = float(student.ppf(0.975, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    middle = float(np.mean(values))
    return middle - half, middle + half
