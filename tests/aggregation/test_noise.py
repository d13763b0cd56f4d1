"""The law of discrete Gaussian noise, the size of a share, and what an adversary can tell from a sum.

Tests of random draws are seeded; a fresh seed would raise a false alarm less often than once in 10^5.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss
from scipy import stats
from scipy.optimize import brentq

from gradveil.accounting.tight import gaussian_epsilon
from gradveil.aggregation import ring
from gradveil.aggregation.noise import discrete_gaussian, secret_bytes, seeded_bytes, share_deviation, thresholds
from gradveil.auditing.bounds import Guesses, mu_of_guesses
from gradveil.errors import BadInput


@pytest.mark.parametrize("deviation", [0.3, 0.7, 3.0, 50.3])
def test_small_noise_has_exactly_the_probabilities_of_a_discrete_gaussian(deviation):
    draws = discrete_gaussian(deviation, 200_000, seeded_bytes(7))
    k = np.arange(-int(12 * deviation) - 2, int(12 * deviation) + 3)
    law = np.exp(-(k.astype(float) ** 2) / (2 * deviation**2))
    expected = law / law.sum() * len(draws)
    seen = np.array([(draws == value).sum() for value in k])
    assert seen.sum() == len(draws)
    common = expected > 5
    seen, expected = (np.append(v[common], v[~common].sum()) for v in (seen, expected))
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-5


def test_large_noise_is_as_wide_and_as_normal_as_promised():
    deviation = 8.41 * 2**24
    scaled = discrete_gaussian(deviation, 100_000, seeded_bytes(8)) / deviation
    assert stats.kstest(scaled, "norm").pvalue > 1e-5
    assert np.mean(scaled**2) == pytest.approx(1, abs=4.5 * math.sqrt(2 / len(scaled)))
    assert np.mean(scaled**4) == pytest.approx(3, abs=4.5 * math.sqrt(96 / len(scaled)))
    assert len(np.unique(discrete_gaussian(deviation, 1000, seeded_bytes(9)) % 2)) == 2


@pytest.mark.parametrize("deviation", [0.7, 50.3, 8.41 * 2**24, 2.0**51])
def test_the_chance_to_accept_is_exact_to_2_to_the_minus_45(deviation):
    k = np.unique(np.append(np.linspace(-9.4, 9.4, 200) * deviation, [0.0, 1.0]).astype(np.int64))
    with localcontext(prec=60):
        for value, threshold in zip(k.tolist(), thresholds(k, deviation).tolist(), strict=True):
            exact = (-((Decimal(value) / Decimal(deviation)) ** 2) / 2).exp() * 2**64
            assert abs(Decimal(threshold) - exact) <= exact / 2**45 + 1


def test_twenty_shares_add_up_to_the_promised_noise_even_without_the_tolerated_ones():
    z, size, nodes, tolerated = 8.41, 80_200, 20, 6
    deviation = share_deviation(z, size, 3000, nodes, tolerated)
    shares = [discrete_gaussian(deviation, size, seeded_bytes(5, i)) for i in range(nodes)]
    promised = z * (2**24 + math.sqrt(size))
    honest = np.sum(shares[tolerated:], axis=0) / promised
    assert np.mean(honest**2) == pytest.approx(1, abs=0.024)
    assert np.mean((np.sum(shares, axis=0) / promised) ** 2) == pytest.approx(nodes / (nodes - tolerated), rel=0.024)
    assert stats.kstest(honest, "norm").pvalue > 1e-5


def epsilon_of_shift(law, shift, delta):
    """Give epsilon of two shifted laws on whole numbers, from sum max(0, p - e^epsilon q) = delta."""
    p, q = np.append(law, np.zeros(shift)), np.append(np.zeros(shift), law)
    return brentq(lambda epsilon: np.maximum(0, p - math.exp(epsilon) * q).sum() - delta, 0, 50)


def accepted(deviation):
    """Give the law that the sampler has: what is proposed is uniform, so what is kept follows the chances to accept."""
    k = np.arange(-int(10 * deviation), int(10 * deviation) + 1)
    law = thresholds(k, deviation).astype(np.float64)
    return law / law.sum()


@pytest.mark.parametrize("z", [2.0, 8.41])
def test_epsilon_of_the_sum_of_two_shares_is_that_of_gaussian_noise(z):
    """A record of 64 units; two honest nodes. With 2^24 units the difference is smaller still."""
    units, delta = 64, 1e-5
    law = np.convolve(*(accepted(z * units / math.sqrt(2)),) * 2)
    exact = epsilon_of_shift(law, units, delta)
    single = DiscreteGaussianPrivacyLoss(z * units, sensitivity=units)
    assert exact == pytest.approx(gaussian_epsilon(1 / z, delta), rel=2e-5)
    assert single.get_delta_for_epsilon(exact * (1 + 2e-5)) <= delta <= single.get_delta_for_epsilon(exact / (1 + 2e-5))


def test_nobody_can_tell_a_record_in_a_decoded_sum_better_than_its_epsilon_allows():
    """A canary of norm C, three nodes of which one colludes and subtracts its share; each coordinate is a trial."""
    z, trials, nodes, tolerated = 1.0, 20_000, 3, 1
    deviation = share_deviation(z, 1, 10, nodes, tolerated)

    def seen(canary, seed):
        sums = ring.encode(ring.bounded_sum(np.full((1, 1), canary), 1.0)).repeat(trials)
        shares = [discrete_gaussian(deviation, trials, seeded_bytes(seed, i)) for i in range(nodes - tolerated)]
        return ring.decode(ring.total([sums, *(share.astype(np.uint64) for share in shares)]), 1.0)

    threshold = (
        0.5  # at mu = 1 a probit of 20,000 guesses has standard error .0093, and its limit lies 3.29 of them away
    )
    guesses = Guesses(int((seen(1.0, 1) > threshold).sum()), trials, int((seen(0.0, 2) > threshold).sum()), trials)
    bound = mu_of_guesses(guesses, 0.999)
    assert 1 - 2 * 3.29 * 0.0093 - 5 * 2**0.5 * 0.0093 < bound * z <= 1


def test_seeded_bytes_are_the_same_again_and_differ_by_every_number_and_secret_ones_always_do():
    first, again = (seeded_bytes(1, 2) for _ in range(2))
    assert [first(5), first(16)] == [again(5), again(16)]
    fresh = seeded_bytes(1, 2)
    assert fresh(16) != fresh(16)
    others = [seeded_bytes(*words)(16) for words in ((1, 2), (1, 3), (2, 2), (1,), (1, 2, 0))]
    assert len(set(others)) == len(others)
    assert (discrete_gaussian(9.0, 50, seeded_bytes(4)) == discrete_gaussian(9.0, 50, seeded_bytes(4))).all()
    assert (discrete_gaussian(1e6, 50, secret_bytes) != discrete_gaussian(1e6, 50, secret_bytes)).any()


@pytest.mark.parametrize("deviation", [0.0, -1.0, math.nan, math.inf, 2.0**53])
def test_noise_of_no_size_is_refused(deviation):
    with pytest.raises(BadInput, match="deviation"):
        discrete_gaussian(deviation, 1, secret_bytes)


@pytest.mark.parametrize("numbers", [(0.0, 3, 1), (math.nan, 3, 1), (1.0, 3, 3), (1.0, 3, -1)])
def test_a_share_needs_noise_and_somebody_honest(numbers):
    z, nodes, tolerated = numbers
    with pytest.raises(BadInput, match=r"noise_multiplier|tolerated"):
        share_deviation(z, 10, 10, nodes, tolerated)
