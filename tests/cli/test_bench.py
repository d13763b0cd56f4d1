"""What `gradveil bench` answers, in small; how fast anything is stays out of the tests."""

import math
import re
from contextlib import ExitStack
from dataclasses import replace

import jax
import numpy as np
import pytest
from benchmarks import attack_speed, local_step, scaling
from benchmarks.attack_speed import Effort, Turn
from benchmarks.local_step import PEERS_PYTHON, Cost, Size
from benchmarks.step_cases import CASES, Case, chosen

from gradveil.cli import bench as verb
from gradveil.cli.main import main
from gradveil.data.sources import load
from gradveil.errors import BadInput, RunFailed
from gradveil.models.networks import AttackNet

CONTRACT = {"ours_ms", "nonprivate_ms", "opacus_ms", "floor_ms"}
SMALL = Size(clients=2, examples=10, runs=3)
ONE = (Case("adult", 5),)
OURS = [Turn(60.0, 1.0, 2.0), Turn(200.0, 1.0, 1.0), Turn(100.0, 0.5, 4.0), Turn(80.0, 1.0, 2.0)]
PEER = {"peer": [Turn(30.0, 0.5, 6.0), Turn(10.0, 0.75, 9.0), Turn(500.0, 0.5, 4.0), Turn(30.0, 0.25, 10.0)]}


@pytest.mark.slow
def test_ours_and_the_plain_step_are_timed_and_the_rest_is_null():
    figures = local_step.measure(size=SMALL, cases=ONE)
    assert figures.keys() >= CONTRACT
    assert all(math.isfinite(figures[name]) and figures[name] > 0 for name in ("ours_ms", "nonprivate_ms"))
    assert all(figures[name] is None for name in CONTRACT - {"ours_ms", "nonprivate_ms"})
    assert all(len(values) == SMALL.runs for values in figures["raw_ms"].values())
    assert [(row["dataset"], row["batch"]) for row in figures["steps"]] == [("adult", 5)]


def test_every_network_is_timed_with_every_batch():
    assert {(case.dataset, case.batch) for case in CASES} == {
        (name, batch) for name in ("mnist", "cifar10", "lfw", "adult") for batch in (5, 32, 256)
    }
    for case in CASES:
        assert case.population(2).x.shape[1:] == case.shape


@pytest.mark.parametrize(("datasets", "batches"), [("imagenet", "5"), ("mnist", "5,0"), ("mnist", "x")])
def test_a_step_that_is_not_timed_is_bad_input(datasets, batches, capsys):
    assert main(["bench", "--datasets", datasets, "--batches", batches]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_table_of_steps_has_a_line_a_case_and_dashes_for_peers_that_were_not_run(capsys):
    row = local_step.summary({"ours": [Cost(1.5, 3.0)], "nonprivate": [Cost(1.0, 2.5)]})
    rows = [{"dataset": case.dataset, "batch": case.batch} | row for case in chosen("mnist,adult", "5,32")]
    verb._show_steps({"steps": rows, "devices": 2, "compile_seconds": 1.0})
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " B = " in line]
    names = [[f"{name},", "B", "=", batch] for name in ("mnist", "adult") for batch in ("5", "32")]
    assert [line[:4] for line in lines] == 2 * names
    assert lines[0][4:] == ["1.50", "1.00", "-", "-"]
    assert lines[4][4:] == ["1.50", "(1.20)", "-", "(-)", "-", "(-)"]


def test_how_steeply_seconds_grow_is_the_exponent_between_neighbors():
    points = [
        {"what": what, "size": size, "cpu_seconds": seconds}
        for what, size, seconds in [
            ("rows", 10, 1.0),
            ("rows", 100, 10.0),
            ("rows", 1000, 1000.0),
            ("clients", 10, 1.0),
        ]
    ]
    assert [p["order"] and round(p["order"], 6) for p in scaling.with_orders(points)] == [None, 1.0, 2.0, None]


def test_a_point_that_fails_says_why():
    with pytest.raises(RunFailed, match="0 clients could not be measured"):
        scaling._point("clients", 0)


def test_the_figure_has_a_panel_for_each_thing_that_grows(tmp_path):
    points = [
        {"what": what, "size": size, "cpu_seconds": size / 10, "megabytes": 100.0}
        for what, sizes in scaling.SIZES.items()
        for size in sizes
    ]
    scaling.draw(points, tmp_path / "scaling.svg")
    text = (tmp_path / "scaling.svg").read_text()
    assert all(title in text for title in scaling.TITLES.values())


def test_medians_the_best_of_the_peers_and_ratios_within_turns():
    raw = {
        "ours": [Cost(1.0, 2.0), Cost(3.0, 6.0), Cost(2.0, 4.0)],
        "nonprivate": [Cost(1.0, 1.0), Cost(1.0, 1.0), Cost(9.0, 9.0)],
        "opacus per-layer, 1 threads": [Cost(8.0, 8.0), Cost(9.0, 9.0), Cost(7.0, 7.0)],
        "opacus ghost, 2 threads": [Cost(6.0, 12.0), Cost(5.0, 12.0), Cost(90.0, 12.0)],
        "floor": [Cost(0.5, 1.0)] * 3,
    }
    figures = local_step.summary(raw)
    assert (figures["ours_ms"], figures["opacus_ms"], figures["opacus_way"]) == (2.0, 6.0, "ghost, 2 threads")
    assert (figures["ours_cpu_ms"], figures["opacus_cpu_ms"]) == (4.0, 12.0)
    assert (figures["ours_over_nonprivate"], figures["ours_over_floor"]) == (1.0, 4.0)
    assert (figures["opacus_over_ours"], figures["opacus_over_ours_cpu"]) == (6.0, 3.0)


def test_missing_peers_are_bad_input(tmp_path, capsys):
    with pytest.raises(BadInput, match="make bench"):
        local_step.measure(tmp_path / "python", SMALL, ONE)
    assert main(["bench", "--peers", "--peers-python", str(tmp_path / "python")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_peers_need_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(local_step, "CHECKOUT", tmp_path)
    with pytest.raises(BadInput, match="checkout"):
        local_step.measure(tmp_path / "python", SMALL, ONE)


@pytest.mark.slow
def test_a_peer_that_stops_says_why(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no module named opacus' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(BadInput, match="no module named opacus"):
        local_step.measure(broken, SMALL, ONE)


def test_an_attacks_median_speed_and_success_of_all_cores_and_of_each():
    figures = attack_speed._summary({"ours": OURS} | PEER, cores=2)
    assert (figures["attack_ours_vpm"], figures["attack_ours_vpm_per_core"]) == (90.0, 45.0)
    assert (figures["attack_peer_vpm"], figures["attack_peer_vpm_per_core"]) == (30.0, 15.0)
    assert (figures["attack_ours_success"], figures["attack_peer_success"]) == (0.875, 0.5)
    assert (figures["attack_ours_over_peer"], figures["attack_peer_processes"]) == (3.0, 2)
    assert figures["attack_peer_cpu_over_ours"] == 4.0  # the median of 3, 9, 1 and 5


def test_without_peers_only_our_attack_has_figures():
    figures = attack_speed._summary({"ours": OURS}, cores=2)
    empty = {"attack_peer_vpm", "attack_peer_vpm_per_core", "attack_peer_success", "attack_ours_over_peer"}
    empty |= {"attack_peer_processes", "attack_peer_cpu_over_ours"}
    assert {name for name, figure in figures.items() if figure is None} == empty


def test_no_victim_is_attacked_in_two_turns():
    assert Effort(victims=2, turns=3).lots() == [range(0, 2), range(2, 4), range(4, 6)]


def test_without_mnist_the_victims_are_digits_in_its_size(tmp_path, monkeypatch):
    for place in ("GRADVEIL_DATA", "GRADVEIL_CACHE"):
        monkeypatch.setenv(place, str(tmp_path))
    found, small = attack_speed.dataset(), load("digits")
    assert (found.name, found.shape) == ("digits enlarged to 28 x 28", (28, 28, 1))
    for large, split in ((found.train, small.train), (found.test, small.test)):
        for row in range(3):
            np.testing.assert_array_equal(large.x[:, 2 + row : 26 : 3, 4 - row : 26 : 3], split.x)
        assert large.x.sum(dtype=np.float64) == pytest.approx(9 * split.x.sum(dtype=np.float64), rel=1e-9)


def test_the_peers_layout_is_the_same_network():
    params = AttackNet().init(jax.random.key(3), (28, 28, 1), 10)
    image = np.random.default_rng(0).random((28, 28, 1), np.float32)
    *convolutions, last, bias = attack_speed.torch_tensors(params)
    hidden = image.transpose(2, 0, 1)[None]
    for i, stride in enumerate((2, 2, 1, 1)):
        kernel, shift = convolutions[2 * i : 2 * i + 2]
        hidden = jax.lax.conv_general_dilated(hidden, kernel, (stride, stride), [(2, 2), (2, 2)])
        hidden = jax.nn.sigmoid(hidden + shift[:, None, None])
    np.testing.assert_allclose(last @ hidden.reshape(-1) + bias, AttackNet().apply(params, image), atol=1e-5)


@pytest.fixture
def made_up_peer(tmp_path):
    """A peer that claims a second a victim, rebuilds none, and keeps what it was asked."""
    program = tmp_path / "python"
    program.write_text(
        "#!/bin/sh\n"
        f"cp $5 {tmp_path}/victims.npz\n"
        f"while read first count; do echo $2 $3 $4: $first $count >> {tmp_path}/asked\n"
        """echo '{"seconds": '$count', "cpu_seconds": '$count', "successes": 0}'; done\n"""
    )
    program.chmod(0o755)
    return program


@pytest.mark.slow
def test_our_attack_is_timed_in_turn_with_a_peer_that_gets_the_same_victims(made_up_peer, tmp_path):
    attacks = (attack_speed.TIMED[0], replace(attack_speed.TIMED[2], iterations=5))
    figures = attack_speed.measure(made_up_peer, Effort(victims=1, turns=1), attacks)
    assert [row["attack"] for row in figures["attacks"]] == ["cpl", "gradinv"]
    assert (figures["attack_ours_success"], figures["attack_victims"]) == (1, 1)
    assert 0 < figures["attack_ours_vpm"] < math.inf
    assert all((row["attack_peer_vpm"], row["attack_peer_success"]) == (60, 0) for row in figures["attacks"])
    asked = ["1 cpl 300: 0 1"] * 2 + ["1 gradinv 5: 0 1"] * 2  # to warm up, and to be timed
    assert (tmp_path / "asked").read_text().splitlines() == asked
    with np.load(tmp_path / "victims.npz") as handed:
        assert (handed["x"].shape, handed["x"].max(), handed["y"].shape) == ((1, 1, 28, 28), 1, (1,))


def test_victims_are_shared_out_among_processes_that_attack_at_once(made_up_peer, tmp_path):
    with ExitStack() as stack:
        command = ("torch_attacks.py", 1, "dlg", "300", "none")
        started = [stack.enter_context(local_step.worker(made_up_peer, *command)) for _ in range(2)]
        turn = attack_speed._together(started, range(4, 9))
    assert sorted((tmp_path / "asked").read_text().splitlines()) == ["1 dlg 300: 4 2", "1 dlg 300: 6 3"]
    assert turn == Turn(60 * 5 / 3, 0.0, 5.0)  # the one with three victims ends the turn


@pytest.mark.slow
@pytest.mark.skipif(not PEERS_PYTHON.is_file(), reason="PyTorch is installed by `make bench`")
@pytest.mark.parametrize("attack", attack_speed.TIMED, ids=lambda attack: attack.name)
def test_the_peer_rebuilds_a_digit(attack):
    victims = attack_speed._victims(attack_speed.dataset(), 1)
    with attack_speed._attacker(PEERS_PYTHON, attack, victims, 1) as peer:
        assert peer(range(1)).success == 1


def test_the_table_of_attacks_leaves_out_a_peer_that_was_not_run(capsys):
    about = {"attack_data": "mnist", "attack_victims": 8, "attack_cores": 2}
    both = attack_speed._summary({"ours": OURS} | PEER, cores=2)
    alone = attack_speed._summary({"ours": OURS}, cores=2)
    verb._show_attacks(about | {"attacks": [{"attack": "dlg"} | both, {"attack": "gradinv"} | alone]})
    shown = capsys.readouterr().out
    assert "8 victims, mnist" in shown
    cells = [re.split("  +", line.strip()) for line in shown.splitlines() if "%" in line]
    assert cells == [
        ["dlg: gradveil", "45", "88%"],
        ["dlg: PyTorch", "15", "50%", "3.00", "4.00"],
        ["gradinv: gradveil", "45", "88%"],
    ]
