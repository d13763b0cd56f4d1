"""What every sensitivity promises: its formula over the real units, in any order, and no more than the bound."""

import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.errors import BadInput
from gradveil.privacy.clip import NormStats
from gradveil.privacy.sensitivity import SENSITIVITIES, ClipBound, Fixed, L2Max, L2MaxAsCoded, L2MaxOfMean

EXAMPLES = {
    ClipBound: (ClipBound(),),
    Fixed: (Fixed(0.0), Fixed(1.5)),
    L2Max: (L2Max(),),
    L2MaxOfMean: (L2MaxOfMean(),),
    L2MaxAsCoded: (L2MaxAsCoded(), L2MaxAsCoded(low=0.5, high=2.0)),
}
WITHIN_THE_BOUND = (ClipBound, L2Max, L2MaxOfMean)
PAIRS = [(s, c) for examples in EXAMPLES.values() for s in examples for c in (0.3, 2.0, 1e6)]
ALL = pytest.mark.parametrize(("rule", "bound"), PAIRS, ids=[f"{s!r}-{c}" for s, c in PAIRS])
N, M, D = 6, 3, 5


def lot(seed=0):
    """Units [N, M, D] in float64, of sizes between 0.1 and 10."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, M, D)) * 10.0 ** rng.uniform(-1, 1, size=(N, 1, 1))


def facts_of(units, mask, bound):
    """What the surface would hand over, by loops, with every layer clipped on its own."""
    before = np.array([[np.sqrt((g**2).sum()) for g in unit] for unit in units])
    scales = np.minimum(1, bound / before)
    mean = sum(mask[j] * scales[j][:, None] * units[j] for j in range(N)) / N
    of_mean = np.array([np.sqrt((mean[m] ** 2).sum()) for m in range(M)])
    arrays = (before, before * scales * mask[:, None], of_mean, mask)
    return NormStats(*(jnp.asarray(a, jnp.float32) for a in arrays))


def naive(rule, units, mask, bound):
    real = [j for j in range(N) if mask[j]]
    own = [[min(bound, np.linalg.norm(g)) for g in unit] for unit in units]
    match rule:
        case ClipBound():
            return bound
        case Fixed(value):
            return value
        case L2Max():
            return max((own[j][m] for j in real for m in range(M)), default=bound)
        case L2MaxOfMean():
            means = [
                sum((units[j][m] * own[j][m] / np.linalg.norm(units[j][m]) for j in real), np.zeros(D)) / N
                for m in range(M)
            ]
            return max(np.linalg.norm(mean) for mean in means) if len(real) else bound
        case L2MaxAsCoded(low, high):
            sizes = [min(max(max(np.linalg.norm(g) for g in units[j]), low), high) for j in real]
            return sum(sizes) / len(sizes) if sizes else low


def masks():
    yield np.ones(N)
    yield np.array([1.0, 0, 1, 0, 0, 1])
    yield np.array([0.0, 0, 0, 0, 1, 0])
    yield np.zeros(N)


def test_every_rule_has_an_example():
    assert set(EXAMPLES) == set(SENSITIVITIES)


@ALL
def test_it_is_its_formula(rule, bound):
    for mask in masks():
        units = lot()
        got = float(rule(facts_of(units, mask, bound), jnp.asarray(bound)))
        assert got == pytest.approx(naive(rule, units, mask, bound), rel=1e-5, abs=1e-7)


def pairs_of(kinds):
    """Parametrize over the rules of some kinds."""
    chosen = [(rule, bound) for rule, bound in PAIRS if isinstance(rule, kinds)]
    return pytest.mark.parametrize(("rule", "bound"), chosen, ids=[f"{rule!r}-{bound}" for rule, bound in chosen])


@pairs_of(WITHIN_THE_BOUND)
def test_it_is_at_most_the_bound_where_promised(rule, bound):
    for seed in range(5):
        facts = facts_of(100 * lot(seed), np.ones(N), bound)
        assert 0 <= float(rule(facts, jnp.asarray(bound))) <= bound * (1 + 1e-6)


@pairs_of(L2MaxAsCoded)
def test_the_coded_maximum_stays_within_its_own_limits(rule, bound):
    facts = facts_of(1e9 * lot(), np.ones(N), bound)
    assert rule.low <= float(rule(facts, jnp.asarray(bound))) <= rule.high * (1 + 1e-6)


@ALL
def test_the_order_of_units_does_not_matter(rule, bound):
    order = np.random.default_rng(1).permutation(N)
    for mask in masks():
        one, other = facts_of(lot(), mask, bound), facts_of(lot()[order], mask[order], bound)
        assert float(rule(one, bound)) == pytest.approx(float(rule(other, bound)), rel=1e-6)


@ALL
def test_masked_slots_are_ignored(rule, bound):
    mask = np.array([1.0, 0, 1, 0, 0, 1])
    facts = facts_of(lot(), mask, bound)
    padding = jnp.asarray(mask)[:, None] == 0
    noisy = facts._replace(before=jnp.where(padding, 1e30, facts.before), after=jnp.where(padding, 1e30, facts.after))
    assert float(rule(facts, bound)) == float(rule(noisy, bound))


@ALL
def test_it_says_whether_it_looks_at_the_units(rule, bound):
    answers = {float(rule(facts_of(scale * lot(), np.ones(N), bound), jnp.asarray(bound))) for scale in (0.01, 0.1, 1)}
    assert (len(answers) > 1) == rule.data_dependent


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fixed(-1.0),
        lambda: Fixed(float("inf")),
        lambda: Fixed(float("nan")),
        lambda: L2MaxAsCoded(low=0.0),
        lambda: L2MaxAsCoded(low=2.0, high=1.0),
        lambda: L2MaxAsCoded(high=float("inf")),
    ],
)
def test_a_senseless_number_is_refused(make):
    with pytest.raises(BadInput, match="= "):
        make()
