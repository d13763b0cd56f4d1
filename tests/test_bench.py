"""What `gradveil bench` answers, in small; how fast anything is stays out of the tests."""

import math

import pytest

from gradveil.cli.main import main
from gradveil.errors import BadInput
from gradveil.experiments import bench
from gradveil.experiments.bench import Size

CONTRACT = {"ours_ms", "nonprivate_ms", "opacus_ms", "floor_ms", "attack_ours_vpm", "attack_peer_vpm"}
SMALL = Size(clients=2, steps=2, runs=3)


def test_ours_and_the_plain_step_are_timed_and_the_rest_is_null():
    figures = bench.measure(size=SMALL)
    assert figures.keys() >= CONTRACT
    assert all(math.isfinite(figures[name]) and figures[name] > 0 for name in ("ours_ms", "nonprivate_ms"))
    assert all(figures[name] is None for name in CONTRACT - {"ours_ms", "nonprivate_ms"})
    assert all(len(values) == SMALL.runs for values in figures["raw_ms"].values())


def test_medians_and_the_better_number_of_threads():
    raw = {
        "ours": [1.0, 3.0, 2.0],
        "nonprivate": [1.0, 1.0, 9.0],
        "opacus_1_threads": [8.0, 9.0, 7.0],
        "opacus_2_threads": [6.0, 5.0, 90.0],
        "floor": [0.5, 0.5, 0.5],
    }
    figures = bench._summary(raw)
    assert (figures["ours_ms"], figures["opacus_ms"], figures["opacus_threads"]) == (2.0, 6.0, 2)
    assert (figures["opacus_over_ours"], figures["ours_over_nonprivate"], figures["ours_over_floor"]) == (3.0, 2.0, 4.0)


def test_missing_peers_are_bad_input(tmp_path, capsys):
    with pytest.raises(BadInput, match="make bench"):
        bench.measure(tmp_path / "python", SMALL)
    assert main(["bench", "--peers", "--peers-python", str(tmp_path / "python")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_peers_need_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)
    with pytest.raises(BadInput, match="checkout"):
        bench.measure(tmp_path / "python", SMALL)


def test_a_peer_that_stops_says_why(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no module named opacus' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(BadInput, match="no module named opacus"):
        bench.measure(broken, SMALL)
