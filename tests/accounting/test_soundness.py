"""Noise scaled to the data hides nothing: the computation behind docs/soundness.md, and one counter-example."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2

from gradveil.methods import FED_ALPHA_CDP, FED_CDP
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.method import combine, split_static
from gradveil.privacy.sanitize import cross
from gradveil.privacy.sensitivity import L2Max
from gradveil.surface import Surface


def log_stick(epsilon, d, rho, wide_first):
    """Give ln of the hockey-stick of N(0, rho^2 I_d) and N(0, I_d), in either order, from the law of the squared norm.

    Wide against narrow, the loss is -d ln rho + (1 - 1 / rho^2) r / 2 at squared norm r; it exceeds epsilon beyond
    a threshold, and r is chi-square with d degrees of freedom, times rho^2 under the wide law.
    """
    slope = (1 - 1 / rho**2) / 2
    if wide_first:
        r = max((epsilon + d * math.log(rho)) / slope, 0.0)
        first, second = chi2.logsf(r / rho**2, d), chi2.logsf(r, d)
    else:
        r = max((d * math.log(rho) - epsilon) / slope, 0.0)
        first, second = chi2.logcdf(r, d), chi2.logcdf(r / rho**2, d)
    if first == -math.inf:
        return -1e9
    share = epsilon + second - first
    return first + math.log(-math.expm1(share)) if share < 0 else -1e9


def one_release(rho, d, delta=1e-5):
    """Give epsilon of ONE release with equal means and noise scales of ratio rho; sigma does not occur."""

    def solve(wide_first):
        def excess(epsilon):
            return log_stick(epsilon, d, rho, wide_first) - math.log(delta)

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
        return brentq(excess, 0.0, high, xtol=1e-6)

    return max(solve(True), solve(False))


@pytest.mark.parametrize(
    ("rho", "d", "expected"),
    [
        (1.001, 10, 0.016),
        (1.001, 34_720, 0.991),
        (1.01, 1_000, 1.87),
        (1.01, 34_720, 14.3),
        (1.05, 34_720, 143),
        (1.1, 10, 2.97),
        (1.1, 1_000, 30.2),
        (1.1, 34_720, 455),
        (2.0, 10, 54.1),
        (2.0, 1_000, 1_110),
        (2.0, 34_720, 29_717),
    ],
)
def test_one_release_tells_two_noise_scales_apart(rho, d, expected):
    assert one_release(rho, d) == pytest.approx(expected, rel=5e-3)


def test_the_computation_agrees_with_simulation_in_few_dimensions():
    rho, d, epsilon, rng = 1.5, 4, 0.5, np.random.default_rng(3)
    r = rho**2 * rng.chisquare(d, 400_000)
    loss = -d * math.log(rho) + (1 - 1 / rho**2) / 2 * r
    assert math.exp(log_stick(epsilon, d, rho, True)) == pytest.approx(
        np.maximum(0, -np.expm1(epsilon - loss)).mean(), rel=0.01
    )


def test_the_mean_loss_is_that_of_the_formula_and_grows_with_the_dimension():
    """E L = d ((rho^2 - 1) / 2 - ln rho), sd L = (rho^2 - 1) sqrt(d / 2); epsilon lies a few sd above the mean."""
    rho = 1.1
    for d in (1_000, 34_720, 1_000_000):
        mean, spread = d * ((rho**2 - 1) / 2 - math.log(rho)), (rho**2 - 1) * math.sqrt(d / 2)
        assert mean + 3.5 * spread < one_release(rho, d) < mean + 5 * spread


@pytest.mark.parametrize(("d", "change"), [(10, 0.032), (1_000, 0.0048), (34_720, 0.00084), (1_000_000, 0.00016)])
def test_a_tiny_change_of_scale_exceeds_the_papers_whole_budget_in_one_release(d, change):
    assert one_release(1 + 1.05 * change, d) > 0.823 > one_release(1 + 0.95 * change, d)


def test_the_renyi_divergence_of_the_moments_accountant_is_infinite():
    """It is finite only for alpha < rho^2 / (rho^2 - 1), where alpha / rho^2 + 1 - alpha stays above 0."""

    def integrand_decays(alpha, rho):
        return alpha / rho**2 + (1 - alpha) > 0

    assert integrand_decays(5.7, 1.1)
    assert not integrand_decays(5.8, 1.1)
    assert integrand_decays(29, 1.0175)
    assert not integrand_decays(29, 1.018)


def released(method, sigma, *norms):
    """Let units with these values in one coordinate cross the example surface; give the noised mean, flat."""
    kind, numbers = split_static(method)
    lot = (jnp.zeros((5, 50)).at[: len(norms), 0].set(jnp.asarray(norms)), jnp.zeros((5, 20)))
    mask = (jnp.arange(5) < len(norms)).astype(jnp.float32)
    crossing = cross(Surface.EXAMPLE, combine(kind, numbers), lot, mask, 5.0, jnp.asarray(sigma), (), jax.random.key(4))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(crossing.used)])


@pytest.mark.parametrize("clip", [PerLayer(4.0), Flat(4.0)])
@pytest.mark.parametrize("sigma", [0.5, 6.0, 1e6])
def test_one_look_tells_an_empty_batch_from_one_record_whatever_sigma_is(clip, sigma):
    """Zero gradients have S = 0 and are released as exact zeros; one record of norm C is not. Control: S = C."""
    method = replace(FED_ALPHA_CDP, clip=clip)
    assert isinstance(method.sensitivity, L2Max)
    assert not released(method, sigma, 0.0, 0.0).any()
    assert released(method, sigma, 0.0, 0.0, 4.0).all()
    fixed = replace(FED_CDP, clip=clip)
    assert released(fixed, sigma, 0.0, 0.0).all()


@pytest.mark.parametrize("sigma", [0.5, 6.0, 60.0])
def test_the_scale_of_the_noise_can_be_read_off_one_release_at_any_sigma(sigma):
    """The same key draws the same noise, so a record of twice the norm doubles the release where no signal is."""
    small, large = (released(FED_ALPHA_CDP, sigma, norm)[1:] for norm in (1.0, 2.0))
    np.testing.assert_allclose(large, 2 * small, rtol=1e-5)
    fixed_small, fixed_large = (released(FED_CDP, sigma, norm)[1:] for norm in (1.0, 2.0))
    np.testing.assert_allclose(fixed_large, fixed_small, rtol=1e-6)


def test_the_largest_norm_of_a_batch_is_not_its_local_sensitivity():
    """Adding one record moves the clipped sum by C, whatever the largest norm was before."""
    before, after = (5 * released(FED_ALPHA_CDP, 0.0, *norms)[0] for norms in ((0.1, 0.1), (0.1, 0.1, 9.0)))
    assert after - before == pytest.approx(4.0, abs=1e-5)
    assert after - before > 10 * 0.1
