"""A clip of one's own is tried before it is trusted, and a guarantee says that it was trusted."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import pytest

import gradveil
from gradveil.accounting import caveats
from gradveil.accounting.accountant import account
from gradveil.accounting.release import Ledger
from gradveil.accounting.threats import THREATS
from gradveil.errors import BadInput
from gradveil.federation.ledger import releases
from gradveil.federation.plan import Plan
from gradveil.methods import FED_CDP, METHODS
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import Flat
from gradveil.privacy.inspection import _learns_from_raw_norms, inspect, own_parts

PARAMS = {"w": jnp.zeros((4, 3)), "b": jnp.zeros(3)}


@dataclass(frozen=True, slots=True)
class Mine:
    """A flat clip in other words, whose factor, claim and notes a test may spoil."""

    c: float = 4.0
    factor: float = 1.0
    learns: bool = False
    joint: ClassVar[bool] = True
    sound: ClassVar[bool] = True
    once_a_round: ClassVar[bool] = False

    def init(self, params):
        return ()

    def transform(self, lot, clip_state):
        return lot

    def scales(self, norms, clip_state):
        whole = jnp.sqrt(jnp.sum(norms**2, axis=1, keepdims=True))
        return jnp.broadcast_to(jnp.minimum(1.0, self.factor * self.c / whole), norms.shape)

    def inverse(self, noised, clip_state):
        return noised

    def bound(self, clip_state):
        return jnp.asarray(self.c)

    def statistics(self, norm_stats, noised, noise_std, clip_state):
        return jnp.mean(norm_stats.before) if self.learns else ()

    def update(self, clip_state, summed, expected, key):
        return clip_state


class Unsound(Mine):
    sound: ClassVar[bool] = False


def method(clip):
    return replace(FED_CDP, clip=clip)


def guarantee(clip, threat="server"):
    sizes = {"clients": 10, "cohort": 5, "rounds": 2, "local_steps": 3, "batch": 5, "client_size": 50}
    plan = Plan(dataset="digits", method=method(clip), learning_rate=0.1, **sizes)
    held = tuple(r for t in range(2) for r in releases(plan, t, 2, 1))
    return account(Ledger(held, 2), 1e-5, "add-remove", threat)


def test_a_clip_that_keeps_its_bound_passes():
    inspect(method(Mine()), PARAMS)


@pytest.mark.parametrize("factor", [1.01, 1e9])
def test_a_clip_that_lets_a_unit_through_is_refused_with_both_norms(factor):
    with pytest.raises(BadInput, match=r"clip = Mine: a clipped unit has norm .*, and must be at most its bound C = 4"):
        inspect(method(Mine(factor=factor)), PARAMS)


def test_a_clip_that_says_sound_and_learns_from_raw_norms_is_refused():
    with pytest.raises(
        BadInput, match="clip = Mine: declares sound = True, but its statistics depend on norms without noise"
    ):
        inspect(method(Mine(learns=True)), PARAMS)


@pytest.mark.parametrize("name", METHODS)
def test_the_parts_of_gradveil_need_no_inspection_and_leave_no_caveat(name):
    assert own_parts(METHODS[name].value) == ()
    inspect(METHODS[name].value, jax.eval_shape(lambda: PARAMS))


@pytest.mark.parametrize("threat", THREATS)
def test_a_trusted_part_is_named_in_every_guarantee(threat):
    mine, theirs = guarantee(Mine(), threat), guarantee(Flat(4.0), threat)
    assert mine.epsilon == theirs.epsilon
    said = caveats.trusted(("Mine",))
    assert (said in mine.caveats, said in theirs.caveats) == (True, False)
    assert "Mine" in said


@pytest.mark.parametrize("threat", THREATS)
def test_a_clip_that_says_it_is_not_sound_gets_no_finite_epsilon(threat):
    found = guarantee(Unsound(), threat)
    assert (found.epsilon, found.caveats[0]) == (math.inf, caveats.UNSOUND_CLIP)


def test_the_inspection_tells_a_count_from_a_constant():
    """Quantile counts units below its bound: raw notes, which the ledger charges as a release of their own."""
    clip = Quantile(1.0)
    assert _learns_from_raw_norms(clip, PARAMS, clip.init(PARAMS))
    assert not _learns_from_raw_norms(Flat(1.0), PARAMS, ())


def test_a_run_with_a_clip_that_does_not_clip_is_refused_before_anything_is_written(tmp_path):
    plan = gradveil.plan("synthetic", method(Mine(factor=1e9)), rounds=1)
    with pytest.raises(BadInput, match="a clipped unit has norm"):
        gradveil.train(plan, tmp_path / "run")
    assert not (tmp_path / "run").exists()
