"""The calculator's table is what the package computes, and the leak lab's frames are what its attacks reach."""

import math
import random
from dataclasses import asdict

import pytest
from tools.site import epsilon_table, leak_frames
from tools.site.epsilon_table import GRIDS, THREATS, entries
from tools.site.leak_frames import Setting, measured, settings

import gradveil
from gradveil import names
from gradveil.accounting.accountant import guarantees
from gradveil.cli.main import main
from gradveil.data.sources import load

TABLE = epsilon_table.known()
LEAKS = leak_frames.known()


def entry(method, **point):
    """Look an entry up as the page does: the last axis runs fastest."""
    at = 0
    for axis in TABLE["methods"][method]["axes"]:
        at = at * len(axis["values"]) + axis["values"].index(point[axis["name"]])
    return {threat: column[at] for threat, column in TABLE["methods"][method]["epsilons"].items()}


def test_the_table_has_every_point_of_every_grid():
    assert set(TABLE["methods"]) == set(GRIDS)
    for name, grid in GRIDS.items():
        held = TABLE["methods"][name]
        assert [(a["name"], tuple(a["values"])) for a in held["axes"]] == [(a.name, a.values) for a in grid.axes]
        assert {len(column) for column in held["epsilons"].values()} == {len(grid.points())}
        assert tuple(held["epsilons"]) == THREATS


def test_adversaries_are_described_as_the_package_does():
    assert TABLE["threats"] == {threat: names.THREATS[threat] for threat in THREATS}


@pytest.mark.parametrize("method", GRIDS)
def test_entries_drawn_at_random_are_what_the_package_computes(method):
    for point in random.Random(0).sample(GRIDS[method].points(), 6):
        assert entry(method, **point) == entries(GRIDS[method], point), point


def test_an_entry_is_the_epsilon_that_the_command_line_prints_rounded_up(capsys):
    import json

    flags = ["--sigma", "2", "--q", "0.02", "--rounds", "100", "--local-steps", "10", "--client-q", "0.1"]
    assert main(["account", *flags, "--json"]) == 0
    told = {g["threat_model"]: g["epsilon"] for g in json.loads(capsys.readouterr().out)["guarantees"]}
    held = entry("fed-cdp", sigma=2.0, q=0.02, rounds=100, local_steps=10, client_q=0.1)
    for threat, epsilon in held.items():
        assert told[threat] <= epsilon <= told[threat] * 1.001, threat


def test_an_entry_of_fed_sdp_is_that_of_a_plan():
    from gradveil.accounting.release import Ledger
    from gradveil.federation.ledger import releases

    changes = {"clients": 100, "cohort": 10, "client_size": 10, "rounds": 30, "local_steps": 1, "batch": 5}
    plan = gradveil.plan("digits", "fed-sdp", clip="flat:4", sigma=2.0, cohort_sampling="poisson", **changes)
    ledger = Ledger(tuple(r for t in range(30) for r in releases(plan, t, 4, 1)), 30)
    told = {g.threat_model: g.epsilon for g in guarantees(ledger, plan.delta, "add-remove", THREATS)}
    held = entry("fed-sdp", sigma=2.0, client_q=0.1, rounds=30)
    assert {t for t, e in held.items() if e is None} == {t for t, e in told.items() if math.isinf(e)}
    assert all(told[t] <= e <= told[t] * 1.001 for t, e in held.items() if e is not None)


@pytest.mark.parametrize("method", GRIDS)
def test_more_noise_never_costs_more(method):
    grid = GRIDS[method]
    stride = len(grid.points()) // len(grid.axes[0].values)
    for column in TABLE["methods"][method]["epsilons"].values():
        finite = [math.inf if e is None else e for e in column]
        assert all(less <= more for less, more in zip(finite[stride:], finite[:-stride], strict=True))


def test_every_setting_of_the_lab_was_computed_once():
    assert [Setting(one["method"], one["sigma"], one["batch"]) for one in LEAKS] == settings()


def test_every_setting_shows_as_many_guesses_as_pictures():
    for one in LEAKS:
        assert len(one["truth"]) == one["batch"]
        assert len(one["frames"]) == len(one["iterations"]) >= 2
        assert all(len(frame) == one["batch"] for frame in one["frames"])
        assert {len(picture) for frame in (one["truth"], [one["prior"]], *one["frames"]) for picture in frame} == {64}


def test_without_noise_pictures_come_back_and_with_that_of_the_preset_they_do_not():
    for one in LEAKS:
        assert one["sigma"] or one["error"] < 0.2 * one["prior_error"], one["batch"]
        assert one["sigma"] < 1 or one["error"] > 0.8 * one["prior_error"], asdict(Setting(**_key(one)))


def _key(one):
    return {name: one[name] for name in ("method", "sigma", "batch")}


@pytest.mark.slow
@pytest.mark.parametrize("setting", [Setting("non-private", 0.0, 1), Setting("fed-cdp", 1.0, 2)], ids=str)
def test_a_setting_of_the_lab_is_found_again(setting):
    (held,) = [one for one in LEAKS if _key(one) == asdict(setting)]
    again = measured(setting, load("digits"))
    assert again["truth"] == held["truth"]
    assert again["error"] == pytest.approx(held["error"], abs=0.02)
    assert again["prior_error"] == pytest.approx(held["prior_error"], abs=1e-3)
