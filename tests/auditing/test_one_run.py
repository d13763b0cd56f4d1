"""Canaries in a real training run."""

from dataclasses import replace

import numpy as np
import pytest

import gradveil
from gradveil.auditing import audits
from gradveil.auditing.audits import Effort
from gradveil.auditing.canaries import trained_with_gradients
from gradveil.auditing.one_run_levels import guessed
from gradveil.methods import FED_CDP, FED_SDP
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant

QUIET = replace(FED_CDP, name="quiet", clip=Flat(1.0), noise=Constant(0.02))
SIZES = {"clients": 2, "cohort": 2, "client_size": 60, "batch": 60, "rounds": 2, "model": Mlp(hidden=(4,))}


def test_guesses_are_made_for_the_ends_and_counted():
    inside = np.array([False, False, True, True, True, False, True, True])
    assert guessed(np.arange(8.0), inside) == (4, 4)
    assert guessed(-np.arange(8.0), inside) == (4, 0)


@pytest.mark.slow
def test_gradient_canaries_in_a_run_with_little_noise_are_all_told_apart(digits):
    plan = gradveil.plan("digits", QUIET, sampling="whole", **SIZES)
    shown = trained_with_gradients(plan, digits, 40, 5)
    for scores in (shown.update, shown.model):
        assert scores[shown.inside].min() > scores[~shown.inside].max()
    assert 5 < shown.inside.sum() < 35


@pytest.mark.slow
@pytest.mark.parametrize("level", ["one-run", "black-box"])
def test_a_sound_run_is_not_refuted_and_the_row_says_how_many_guesses_were_right(level, audited):
    record = audited(replace(QUIET, noise=Constant(2.0)), (level,), effort=Effort(canaries=40), **SIZES)
    assert record.verdict in ("consistent", "no-power")
    assert all("40 canaries in one run" in row.why and row.ceiling > 0 for row in record.rows if row.unit == "example")


def test_a_method_that_protects_clients_has_no_canary_records_and_no_power(audited):
    record = audited(replace(FED_SDP, clip=Flat(1.0)), ("one-run",))
    assert record.verdict == "no-power"
    assert all(row.ceiling == 0 for row in record.rows)


def test_too_few_canaries_are_refused():
    with pytest.raises(gradveil.BadInput, match="victims"):
        audits.Effort(canaries=2)
