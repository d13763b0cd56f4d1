"""Canaries in a real training run."""

from dataclasses import replace

import numpy as np
import pytest

import gradveil
from gradveil.auditing import audits
from gradveil.auditing.audits import Effort
from gradveil.auditing.canaries import trained_with_clients, trained_with_gradients
from gradveil.auditing.one_run_levels import guessed, in_every_release
from gradveil.federation import server
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat
from gradveil.privacy.sanitize import cross
from gradveil.privacy.schedule import Constant
from gradveil.surface import Surface

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
    record = audited(replace(FED_SDP, clip=Flat(1.0)), ("black-box",))
    assert record.verdict == "no-power"
    assert all(row.ceiling == 0 for row in record.rows)


FEW_CLIENTS = {"clients": 2, "cohort": 2, "client_size": 4, "batch": 4, "rounds": 2, "model": Mlp(hidden=(4,))}
FOR_CLIENTS = replace(FED_SDP, name="for clients", clip=Flat(1.0), noise=Constant(8.0))


@pytest.mark.parametrize(
    "method", [FOR_CLIENTS, replace(FOR_CLIENTS, surface=Surface.UPDATE)], ids=["server", "update"]
)
def test_canary_clients_do_not_refute_a_sound_run_and_say_how_many_there_were(method, audited):
    record = audited(method, ("one-run",), effort=Effort(canaries=60), **FEW_CLIENTS)
    assert record.verdict == "consistent"
    assert all("60 canary clients" in row.why and row.ceiling > row.claimed for row in record.rows)


def test_canary_clients_refute_noise_that_is_divided_twice(audited, monkeypatch):
    def twice(surface, method, lot, mask, expected, sigma, state, key):
        return cross(surface, method, lot, mask, expected, sigma / expected, state, key)

    monkeypatch.setattr(server, "cross", twice)
    server.aggregate.clear_cache()
    try:
        record = audited(FOR_CLIENTS, ("one-run",), effort=Effort(canaries=60), **FEW_CLIENTS)
    finally:
        server.aggregate.clear_cache()
    assert record.verdict == "refuted"
    assert all("Gaussian f-DP" in row.why for row in record.rows)


def test_canary_clients_move_one_coordinate_each_by_the_bound(digits):
    plan = gradveil.plan("digits", replace(FOR_CLIENTS, noise=Constant(1e-6)), **FEW_CLIENTS)
    shown = trained_with_clients(plan, digits, 8, 5)
    # two rounds, each the mean over ten clients of one update of norm 1
    assert shown.model[shown.inside] == pytest.approx(2 * 1.0 / 10, rel=1e-3)
    assert shown.model[~shown.inside] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    ("method", "changes", "always"),
    [
        (FED_SDP, {}, True),
        (FED_SDP, {"cohort": 1}, False),
        (FED_CDP, {}, False),
        (FED_CDP, {"sampling": "whole"}, True),
        (FED_ALPHA_CDP, {"sampling": "whole"}, False),
    ],
    ids=["all clients", "some clients", "drawn batches", "whole batches", "noise of the data"],
)
def test_a_run_is_gaussian_where_nothing_is_drawn_but_noise(method, changes, always):
    assert in_every_release(gradveil.plan("digits", method, **(FEW_CLIENTS | changes))) is always


def test_too_few_canaries_are_refused():
    with pytest.raises(gradveil.BadInput, match="victims"):
        audits.Effort(canaries=2)
