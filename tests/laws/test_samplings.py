"""What every sampling promises: positions inside the shard, and the law of chance that the accounting assumes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gradveil.data.sampling import (
    OVERFLOW,
    SAMPLINGS,
    Allocation,
    CohortSampling,
    FixedPass,
    Poisson,
    Whole,
    WithReplacement,
    flips,
    places,
)
from gradveil.errors import BadInput

EXAMPLES = {
    FixedPass: FixedPass(),
    Poisson: Poisson(),
    Allocation: Allocation(),
    WithReplacement: WithReplacement(),
    Whole: Whole(),
}
ALL = pytest.mark.parametrize("sampling", EXAMPLES.values(), ids=repr)
SIZES = [(40, 5), (6, 6), (1, 1)]
MANY = 4000


def many(sampling, size, batch, draws=MANY, seed=0):
    """Positions [draws, slots] and real [draws], each draw with a key of its own."""
    keys = jax.random.split(jax.random.key(seed), draws)
    picked = jax.jit(jax.vmap(lambda k: sampling.pick(k, jnp.asarray(0), size, batch)))(keys)
    real = np.broadcast_to(np.asarray(picked.real), (draws,))
    return np.broadcast_to(np.asarray(picked.positions), (draws, picked.positions.shape[-1])), real


def inclusions(size=40, batch=5):
    """Which records were in which batch, bool [draws, size]."""
    positions, real = many(Poisson(), size, batch)
    joined = np.zeros((len(real), size), bool)
    for row, (listed, n) in enumerate(zip(positions, real, strict=True)):
        joined[row, listed[:n]] = True
    return joined


def test_every_sampling_has_an_example():
    assert set(EXAMPLES) == set(SAMPLINGS)


@ALL
@pytest.mark.parametrize(("size", "batch"), SIZES)
def test_positions_lie_in_the_shard_even_in_padded_slots(sampling, size, batch):
    positions, real = many(sampling, size, batch, draws=50)
    assert positions.shape[1] == sampling.capacities(size, batch)[-1]
    assert ((positions >= 0) & (positions < size)).all()
    assert ((real >= 0) & (real <= positions.shape[1])).all()


@ALL
@pytest.mark.parametrize(("size", "batch"), SIZES)
def test_capacities_ascend_and_a_fixed_size_is_the_batch(sampling, size, batch):
    capacities = sampling.capacities(size, batch)
    assert list(capacities) == sorted(set(capacities))
    assert 1 <= capacities[0] <= capacities[-1]
    if sampling.fixed_size:
        assert capacities == (batch,)
        assert (many(sampling, size, batch, draws=5)[1] == batch).all()
    else:
        assert capacities[-1] <= size


@ALL
def test_the_same_key_picks_the_same_batch(sampling):
    first, second = (sampling.pick(jax.random.key(5), jnp.asarray(2), 40, 5) for _ in range(2))
    np.testing.assert_array_equal(first.positions, second.positions)


@ALL
def test_a_batch_beyond_the_shard_is_refused_unless_records_may_repeat(sampling):
    sampling.check(5, 5)
    if isinstance(sampling, WithReplacement):
        sampling.check(5, 6)
    else:
        with pytest.raises(BadInput, match="batch = 6"):
            sampling.check(5, 6)


@pytest.mark.parametrize(("size", "batch"), [(40, 5), (6, 6), (12, 4)])
def test_a_fixed_pass_uses_every_record_once_a_pass_in_its_order(size, batch):
    steps = [
        FixedPass().pick(jax.random.key(s), jnp.asarray(s), size, batch).positions for s in range(2 * size // batch)
    ]
    np.testing.assert_array_equal(np.concatenate(steps), np.tile(np.arange(size), 2))


def test_a_fixed_pass_wraps_around_where_the_batch_does_not_divide():
    steps = [FixedPass().pick(jax.random.key(0), jnp.asarray(s), 7, 3).positions for s in range(7)]
    np.testing.assert_array_equal(np.bincount(np.concatenate(steps)), np.full(7, 3))


def test_a_poisson_batch_lists_distinct_records_in_order():
    positions, real = many(Poisson(), 40, 5, draws=300)
    for listed, n in zip(positions, real, strict=True):
        assert (np.diff(listed[:n]) > 0).all()


def test_every_record_joins_a_poisson_batch_with_probability_q():
    q, joined = 5 / 40, inclusions()
    assert abs(joined.mean() - q) < 4 * np.sqrt(q * (1 - q) / joined.size)
    assert (np.abs(joined.mean(0) - q) < 4.5 * np.sqrt(q * (1 - q) / MANY)).all()


def test_records_join_a_poisson_batch_independently():
    correlations = np.corrcoef(inclusions().T)[np.triu_indices(40, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(MANY)
    assert stats.kstest(correlations * np.sqrt(MANY), "norm").pvalue > 1e-3


def test_poisson_batches_have_the_binomial_law():
    sizes = inclusions().sum(1)
    edges = np.arange(1, 10)
    observed = np.bincount(np.digitize(sizes, edges), minlength=len(edges) + 1)
    law = stats.binom(40, 5 / 40)
    cumulative = np.concatenate([[0], law.cdf(edges - 1), [1]])
    assert stats.chisquare(observed, MANY * np.diff(cumulative)).pvalue > 1e-3
    assert (
        stats.chisquare(observed, observed.sum() * np.diff(np.r_[0, stats.poisson(4).cdf(edges - 1), 1])).pvalue < 1e-6
    )


def test_draws_of_different_keys_are_different():
    joined = inclusions()
    assert (joined[:-1] == joined[1:]).all(axis=1).mean() < 0.01


@pytest.mark.parametrize(("size", "batch"), [*SIZES, (12, 5), (300, 3), (500, 5), (1347, 64)])
def test_a_poisson_batch_overflows_with_less_than_the_promised_probability(size, batch):
    capacities = Poisson().capacities(size, batch)
    assert stats.binom.sf(capacities[-1], size, batch / size) <= OVERFLOW
    assert OVERFLOW <= 1e-15


@pytest.mark.parametrize(("size", "batch"), [(500, 5), (1347, 64)])
def test_the_small_capacity_holds_most_poisson_batches_and_saves_slots(size, batch):
    small, large = Poisson().capacities(size, batch)
    assert batch <= small < large < size
    assert stats.binom.sf(small, size, batch / size) < 0.2


def one_pass(key, size, batch, steps):
    """The batches of successive steps, as lists of positions; steps of a period have one key."""
    period = Allocation().period(size, batch)
    keys = [jax.random.fold_in(key, step // period) for step in range(steps)]
    picked = [Allocation().pick(k, jnp.asarray(s), size, batch) for s, k in enumerate(keys)]
    return [p.positions[: int(p.real)].tolist() for p in picked]


@pytest.mark.parametrize(("size", "batch"), [(40, 5), (7, 3), (6, 6), (5, 1)])
def test_allocation_puts_every_record_into_one_batch_of_a_pass_and_draws_the_next_pass_anew(size, batch):
    period = Allocation().period(size, batch)
    assert period == int(np.ceil(size / batch))
    batches = one_pass(jax.random.key(3), size, batch, 2 * period)
    for passed in (batches[:period], batches[period:]):
        assert sorted(position for listed in passed for position in listed) == list(range(size))
    if period > 1 and size > 7:
        assert batches[:period] != batches[period:]


def test_allocation_draws_every_place_equally_often_and_independently_of_other_records():
    drawn = np.asarray(jax.vmap(lambda k: places(k, 40, 7))(jax.random.split(jax.random.key(0), MANY)))
    counts = np.apply_along_axis(np.bincount, 0, drawn, minlength=7)
    assert stats.chisquare(counts).pvalue.min() > 1e-3 / 40
    correlations = np.corrcoef((drawn == 2).T)[np.triu_indices(40, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(MANY)
    assert stats.kstest(correlations * np.sqrt(MANY), "norm").pvalue > 1e-3


@pytest.mark.parametrize("period", [1, 7, 100, 2**16 - 1, 2**16])
def test_a_place_is_64_random_bits_modulo_the_period(period):
    """By whole numbers of any size: nothing overflows, and no place is likelier than 1 / period by 2^-48 of that."""
    key = jax.random.key(5)
    high, low = np.asarray(jax.random.bits(key, (2, 500), np.uint32)).astype(object)
    expected = (high * 2**32 + low) % period
    np.testing.assert_array_equal(np.asarray(places(key, 500, period)), expected.astype(np.int64))


@pytest.mark.parametrize(("size", "batch"), [(40, 5), (12, 5), (300, 3), (500, 5), (1347, 64)])
def test_the_others_fill_an_allocated_batch_with_less_than_the_promised_probability(size, batch):
    capacity = Allocation().capacities(size, batch)[-1]
    rate = 1 / Allocation().period(size, batch)
    assert capacity == size or stats.binom.sf(capacity - 1, size - 1, rate) <= OVERFLOW
    assert stats.binom.sf(capacity - 2, size - 1, rate) > OVERFLOW  # and no slot more than that takes


def test_a_pass_of_too_many_batches_is_refused():
    Allocation().check(2**16, 1)
    with pytest.raises(BadInput, match="at most 65536 batches"):
        Allocation().check(2**16 + 1, 1)


def test_with_replacement_draws_uniformly_and_may_repeat():
    positions, _ = many(WithReplacement(), 10, 4)
    assert stats.chisquare(np.bincount(positions.ravel(), minlength=10)).pvalue > 1e-3
    repeats = np.mean([len(set(row)) < 4 for row in positions.tolist()])
    assert repeats == pytest.approx(1 - 10 * 9 * 8 * 7 / 10**4, abs=0.04)


@pytest.mark.parametrize("sampling", CohortSampling)
def test_a_cohort_is_distinct_clients_in_order(sampling):
    for seed in range(20):
        cohort = sampling.draw(jax.random.key(seed), 30, 7)
        assert cohort.dtype == np.int32
        assert (np.diff(cohort) > 0).all()
        assert ((cohort >= 0) & (cohort < 30)).all()
        np.testing.assert_array_equal(cohort, sampling.draw(jax.random.key(seed), 30, 7))


def test_a_fixed_cohort_has_exactly_its_size_and_everyone_can_be_all():
    assert {len(CohortSampling.FIXED.draw(jax.random.key(s), 30, 7)) for s in range(20)} == {7}
    np.testing.assert_array_equal(CohortSampling.FIXED.draw(jax.random.key(0), 9, 9), np.arange(9))
    np.testing.assert_array_equal(CohortSampling.POISSON.draw(jax.random.key(0), 9, 9), np.arange(9))


@pytest.mark.parametrize("sampling", CohortSampling)
def test_every_client_joins_a_cohort_equally_often(sampling):
    draws, q = 600, 3 / 8
    cohorts = [sampling.draw(k, 8, 3) for k in jax.random.split(jax.random.key(1), draws)]
    rates = np.bincount(np.concatenate(cohorts), minlength=8) / draws
    assert (np.abs(rates - q) < 4 * np.sqrt(q * (1 - q) / draws)).all()


def test_a_poisson_cohort_varies_and_may_be_empty():
    sizes = [len(CohortSampling.POISSON.draw(jax.random.key(s), 20, 2)) for s in range(100)]
    assert min(sizes) == 0
    assert len(set(sizes)) > 3


@pytest.mark.parametrize("rate", [1e-6, 1 / 60_000, 0.01, 0.3, 1.0])
def test_a_coin_never_falls_more_often_than_the_rate_that_is_accounted(rate):
    """The words decide: heads are the words below rate 2^32, counted here, not drawn."""
    key = jax.random.key(5)
    words = np.asarray(jax.random.bits(key, (50_000,), np.uint32)).astype(np.float64)
    heads = np.asarray(flips(key, 50_000, rate))
    np.testing.assert_array_equal(heads, words < np.floor(rate * 2**32))
    assert np.floor(rate * 2**32) / 2**32 <= rate


@pytest.mark.slow
def test_the_mean_of_rare_coins_is_their_rate():
    drawn = [int(np.asarray(flips(jax.random.key(seed), 4_000_000, 1e-6)).sum()) for seed in range(60)]
    assert abs(sum(drawn) - 240) < 4 * 240**0.5


def test_a_coin_turns_exactly_at_its_rate():
    """With the rate of a word itself the word is tails; one word more, and it is heads."""
    key = jax.random.key(5)
    words = np.asarray(jax.random.bits(key, (2_000,), np.uint32)).astype(np.int64)
    for place in (0, 7, 1_999):
        at, above = (np.asarray(flips(key, 2_000, (words[place] + more) / 2**32))[place] for more in (0, 1))
        assert (bool(at), bool(above)) == (False, True)
