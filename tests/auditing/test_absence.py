"""Neighbors differ in a unit that is there or not; a record of zeros is another thing, which slots and counts see."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.auditing.absence import CLIENT, NOBODY, RECORD, Without
from gradveil.auditing.audits import Effort
from gradveil.auditing.replay_level import ReplayEffort
from gradveil.data.sampling import SAMPLINGS
from gradveil.methods import FED_CDP, QUANTILE
from gradveil.privacy import sanitize
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.method import combine, split_static
from gradveil.privacy.sanitize import cross
from gradveil.privacy.schedule import Constant
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

SLACK = replace(FED_CDP, name="slack", clip=Slack(1.0), noise=Constant(2.0))
LEARNING = replace(QUANTILE, name="learning", clip=Quantile(1.0, eta=1.0), noise=Constant(2.0))
FEW = Effort(replay=ReplayEffort(keys=8, climbs=2, draws=400, longest=64))


def released(clip, units, there):
    """What a lot releases without noise, with the slots beside it: one vector, a sum."""
    method = combine(*split_static(replace(SLACK, clip=clip)))
    lot, state = (jnp.asarray(units, jnp.float32),), jnp.asarray(clip.c, jnp.float32)
    found = cross(
        Surface.EXAMPLE, method, lot, jnp.asarray(there, jnp.float32), 1, jnp.zeros(()), state, jax.random.key(0)
    )
    return np.concatenate([np.ravel(found.used[0]), np.ravel(found.statistics[0]) * clip.c]).astype(np.float64)


def by_hand(unit, c, slots):
    """The unit clipped to C, and beside it t_k = C / sqrt(2)^k for every k whose t_k the norm does not exceed."""
    norm = math.hypot(*unit)
    beside = [c / math.sqrt(2) ** k if norm <= c / math.sqrt(2) ** k else 0.0 for k in range(1, slots + 1)]
    return np.array([*(x * min(1.0, c / norm) if norm else 0.0 for x in unit), *beside])


@pytest.mark.parametrize("slots", [1, 4])
def test_slots_are_within_the_bound_for_a_unit_that_is_there_or_not_and_beyond_it_for_one_of_zeros(slots):
    c, clip = 0.5, Slack(0.5, slots=slots, unused=0.2)
    nothing = released(clip, np.zeros((1, 3)), [0])
    assert not nothing.any()
    norms = [0.0, 0.01, 0.1, 0.2, 0.3, 0.36, 0.49, 0.5, 0.6, 1e4]
    units = [np.array([n, 0.0, 0.0]) for n in norms]
    found = [released(clip, unit[None], [1]) for unit in units]
    for one, unit in zip(found, units, strict=True):
        assert one == pytest.approx(by_hand(unit, c, slots), abs=1e-6)
    assert max(np.linalg.norm(one - nothing) for one in found) == pytest.approx(c, rel=1e-5)  # add or remove
    from_zeros = max(np.linalg.norm(one - found[0]) for one in found)
    assert from_zeros == pytest.approx(c * math.sqrt(2 - 2.0**-slots), rel=1e-5)  # a zero fills every slot
    opposite = released(clip, -units[-1][None], [1])
    assert c < max(np.linalg.norm(one - opposite) for one in found) <= 2 * c + 1e-6  # replace


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: one.name)
def test_who_is_gone_is_in_no_batch_and_the_others_stay_in_order(sampling):
    size, batch = (6, 6) if sampling.name == "whole" else (6, 3)
    for number in range(12):
        given = jax.random.key(number), jnp.asarray(number), size, batch
        positions, real = sampling().pick(*given)
        drawn = np.asarray(positions)[: int(real)].tolist()
        for gone, stay in ((NOBODY, drawn), (RECORD, [i for i in drawn if i != 0]), (CLIENT, [])):
            thinned, left = Without(sampling(), jnp.asarray(gone)).pick(*given)
            assert np.asarray(thinned)[: int(left)].tolist() == stay
            assert thinned.shape == positions.shape


@pytest.mark.slow
def test_slots_are_part_of_what_is_replayed_and_a_sound_method_is_consistent(audited):
    record = audited(SLACK, effort=FEW)
    assert record.verdict == "consistent"
    assert max(row.lower_bound / row.claimed for row in record.rows if row.claimed) > 0.75


@pytest.mark.slow
def test_slots_that_a_clipped_unit_fills_too_are_refuted(audited, monkeypatch):
    full = sanitize.slots_of

    def always(clip, norms, state):
        return full(clip, jnp.zeros_like(norms), state)

    monkeypatch.setattr(sanitize, "slots_of", always)
    assert audited(SLACK, effort=FEW).verdict == "refuted"


@pytest.mark.slow
def test_the_count_of_a_quantile_is_replayed_and_is_most_of_what_it_spends_here(audited):
    record = audited(LEARNING, effort=FEW)
    assert record.verdict == "consistent"
    assert max(row.lower_bound / row.claimed for row in record.rows if row.claimed) > 0.7


@pytest.mark.slow
def test_a_record_of_zeros_is_not_an_absent_one_for_a_count(audited, monkeypatch):
    # with zeros in place of the absent record the count moves by one, twice what the ledger says: a false alarm
    monkeypatch.setattr("gradveil.auditing.replayer.Replayer.absent", lambda self, pair: NOBODY)
    assert audited(LEARNING, effort=FEW).verdict == "refuted"


@pytest.mark.slow
def test_a_count_with_less_noise_than_the_ledger_says_is_refuted(audited, monkeypatch):
    update = Quantile.update

    def quiet(self, state, summed, expected, key):
        still = state * jnp.exp(-self.eta * (summed / expected + 0.5 - self.gamma))
        return jnp.sqrt(still * update(self, state, summed, expected, key))  # half of the noise on ln C

    monkeypatch.setattr(Quantile, "update", quiet)
    jax.clear_caches()  # the server's program is compiled once for all audits of a process
    try:
        assert audited(LEARNING, effort=FEW).verdict == "refuted"
    finally:
        jax.clear_caches()
