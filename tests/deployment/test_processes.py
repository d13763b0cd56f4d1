"""The same plan over a real SuperLink and SuperNodes on loopback, with TLS: parity, kills, outages, refusals."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gradveil.data.sources import load
from gradveil.deployment import conductor, supervisor
from gradveil.deployment.conductor import Federation
from gradveil.deployment.local import local
from gradveil.deployment.policy import Policy
from gradveil.engines.flower import credentials, processes
from gradveil.engines.flower.commands import SuperNodeConfig
from gradveil.engines.vectorized import Vectorized
from gradveil.federation import server
from gradveil.federation.engine import Population, TooFew
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.methods import FED_CDP, FED_SUM
from gradveil.runs import store
from gradveil.runs.presets import resolve

pytestmark = pytest.mark.flower
DEMO = [sys.executable, "-m", "gradveil", "federate", "demo"]
NODES = ("site-0", "site-1", "site-2")
QUIET = lambda sentence: None  # noqa: E731


MARK = f"GRADVEIL_TEST={uuid.uuid4().hex}"
"""In the environment of whatever this process starts, and of what that starts: tests run side by side."""


def our_processes():
    """Give the command lines of all processes that these tests started, and their children, by number."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                marked = MARK.encode() in (folder / "environ").read_bytes()
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if marked and line:  # a process that has ended and was not yet waited for has no command line
                found[int(folder.name)] = line
    return found


BOUND = 400
"""Seconds that a test may take on a busy machine before it is broken off."""


def broken_off(number, frame):
    raise TimeoutError(f"took more than {BOUND} s")


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    os.environ.update([MARK.split("=")])
    before = signal.signal(signal.SIGALRM, broken_off)
    signal.alarm(BOUND)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    end = time.monotonic() + 20
    while (left := our_processes()) and time.monotonic() < end:
        time.sleep(0.5)
    assert not left


@pytest.fixture(scope="module")
def plan():
    data = load("synthetic")
    changes = {"clients": 9, "cohort": 9, "rounds": 2, "local_steps": 3, "batch": 4, "client_size": 20, "seed": 5}
    return resolve("synthetic", data, FED_CDP, changes)


@pytest.fixture
def federation(nothing_is_left_running):
    """A server and three nodes; each test has its own, since most of them break it."""
    with local(NODES, "synthetic", Policy(allow_seeded=True, allow_no_guarantee=True)) as here:
        supervisor.open_server(here.crew, here.server, NODES, QUIET)
        for name in NODES:
            here.start_node(name)
        yield here
        for name in here.crew.processes:  # shown if the test fails
            print(f"--- {name}", here.crew.log(name).read_text(errors="replace")[-3000:], sep="\n")


def laid_out(plan, folder, **settings):
    given = {"nodes": NODES, "deadline": 60.0, "patience": 90.0} | settings
    conductor.lay_out(plan, load("synthetic"), folder, Federation(**given))
    return folder


def lines_of(federation, folder, meanwhile=lambda line: None):
    """Run a folder to its end; `meanwhile` is called after every round."""
    supervisor.begin(federation.crew, federation.server, folder, QUIET)
    seen = []
    for line in supervisor.follow(federation.crew, federation.server, folder, QUIET):
        seen.append(line)
        meanwhile(line)
    return seen


def in_process(plan, engine=None):
    roots = Keys.of(plan.seed, secret=False)
    data = load("synthetic")
    state = server.init(plan, data.shape, len(data.classes), roots)
    *_, last = rounds(plan, engine or Vectorized(plan, Population.of(plan, data)), state, roots)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(last.state.params)]


def test_the_same_plan_and_seed_give_the_same_model_as_in_process(federation, plan, tmp_path):
    folder = laid_out(plan, tmp_path / "run")
    lines = lines_of(federation, folder)
    assert [line.round for line in lines] == [0, 1]
    for line in lines:
        assert line.nodes.missing == {}
        assert set(line.nodes.seconds) == set(NODES)
        assert line.nodes.bytes_up > 0
        assert line.sensitivity is None  # diagnostics stay with the data
    with np.load(folder / store.PARAMS) as stored:
        for i, leaf in enumerate(in_process(plan)):
            np.testing.assert_allclose(stored[f"layer_{i}"], leaf, rtol=0, atol=1e-5)
    result = store.read_json(folder / store.RESULT)
    assert result["rounds"] == 2
    assert result["max_participations"] == 2
    assert {"plan.toml", "data.json", "environment.json", "metrics.jsonl", "params.npz", "result.json"} <= {
        path.name for path in folder.iterdir()
    }


FORGETFUL = """
import sys
from pathlib import Path
from gradveil.engines.flower import worker
from gradveil.deployment.node import NODE, Node, NodeSettings

state, forgot = Path(sys.argv[1]), []
node = Node.open(NodeSettings.read(state / NODE))

def handle(order):
    if order.t == 1 and not forgot:
        forgot.append(order)
        raise ValueError("away")
    return node.handle(order)

worker.serve(sys.argv[2], (state / "superexec.secret").read_bytes(), handle)
"""


class Forgetful:
    """An engine in process whose first attempt at round 1 has too few replies."""

    def __init__(self, plan):
        self.engine, self.forgot = Vectorized(plan, Population.of(plan, load("synthetic"))), False

    def train(self, task, cohort):
        if int(task.t) == 1 and not self.forgot:
            self.forgot = True
            raise TooFew("away")
        return self.engine.train(task, cohort)


def test_fed_sum_prepares_shares_noise_and_repeats_a_round_that_a_node_missed(federation, tmp_path):
    """The mean, the second moment, which one node misses at first, and two gradients: as in process, all counted."""
    changes = {"clients": 9, "client_size": 20, "rounds": 4, "seed": 5, "threat_model": "aggregate"}
    data, method = load("synthetic"), replace(FED_SUM, share=True, honest=0.9)
    plan = resolve("synthetic", data, method, changes)
    assert (plan.honest, len(plan.preparation)) == (9, 2)
    folder, config = laid_out(plan, tmp_path / "run"), federation.nodes["site-2"]
    federation.crew.start("site-2-worker", [sys.executable, "-c", FORGETFUL, str(config.state), config.address])
    try:
        lines = lines_of(federation, folder)
    finally:
        federation.crew.start("site-2-worker", config.worker())
    assert [line.attempts for line in lines] == [1, 2, 1, 1]
    with np.load(folder / store.PARAMS) as stored:
        for i, leaf in enumerate(in_process(plan, Forgetful(plan))):
            np.testing.assert_allclose(stored[f"layer_{i}"], leaf, rtol=0, atol=1e-5 * max(1.0, np.abs(leaf).max()))
    sigmas = plan.sigmas()[:, 0]
    mu = np.sqrt(sum(sigmas**-2.0) + sigmas[1] ** -2.0)
    held = {g["threat_model"]: g["epsilon"] for g in store.read_json(folder / store.RESULT)["guarantees"]}
    assert held["aggregate"] == pytest.approx(analytic(mu), abs=1e-6)
    assert held["server"] == pytest.approx(analytic(3 * mu), abs=1e-6)


def analytic(mu, delta=1e-5):
    """Return epsilon of N(mu, 1) against N(0, 1)."""
    return brentq(lambda e: norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0.0, 50.0)


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def conductors():
    """Give the processes that execute runs."""
    return [pid for pid, line in our_processes().items() if " conductor " in line]


def test_a_node_killed_in_a_run_is_missed_by_name_and_used_again_when_it_is_back(federation, plan, tmp_path):
    folder, most = laid_out(replace(plan, rounds=60), tmp_path / "run", deadline=20.0), 20
    supervisor.begin(federation.crew, federation.server, folder, QUIET)
    told = []
    for line in supervisor.follow(federation.crew, federation.server, folder, QUIET):
        told.append(line.nodes.missing)
        if line.round == 0:
            for part in ("supernode", "worker"):
                os.killpg(federation.crew.processes[f"site-1-{part}"].pid, signal.SIGKILL)
        elif (told[-2] and not told[-1]) or line.round == most:
            break
        # A node that comes back is refused until it was missed for long enough: supervised, it is started again.
        elif federation.crew.processes["site-1-supernode"].poll() is not None:
            federation.start_node("site-1")
    kill(conductors())
    assert told[0] == {}
    assert set().union(*told) == {"site-1"}
    assert told[-1] == {}, told
    # What the lost node was asked for counts, whether it was answered or not.
    with np.load(folder / store.LATEST) as checkpoint:
        assert (checkpoint["participations"] == checkpoint["round"]).all()


def test_a_killed_superlink_is_started_again_with_its_database_and_the_run_goes_on(federation, plan, tmp_path):
    folder = laid_out(replace(plan, rounds=4), tmp_path / "run")
    first = federation.crew.processes["superlink"]

    def meanwhile(line):
        if line.round == 0:
            os.killpg(first.pid, signal.SIGKILL)

    lines = lines_of(federation, folder, meanwhile)
    assert federation.crew.processes["superlink"] is not first
    assert [line.round for line in lines] == [0, 1, 2, 3]
    assert store.read_json(folder / store.RESULT)["max_participations"] >= 4


def test_a_run_whose_server_died_goes_on_from_its_checkpoint_without_counting_twice(federation, plan, tmp_path):
    plan = replace(plan, rounds=3)
    folder = laid_out(plan, tmp_path / "run")
    supervisor.begin(federation.crew, federation.server, folder, QUIET)
    following = supervisor.follow(federation.crew, federation.server, folder, QUIET)
    assert next(following).round == 0
    kill(conductors())
    with pytest.raises(processes.Failed, match="restart with --resume"):
        list(following)
    rest = lines_of(federation, folder)
    assert [line.round for line in rest][-1] == 2
    asked = [json.loads(line) for line in (folder / conductor.JOURNAL).read_text().splitlines()]
    result = store.read_json(folder / store.RESULT)
    assert result["rounds"] == 3
    # Every attempt counts once: three rounds, and the one that was under way when the server died.
    assert result["max_participations"] == len(asked)
    assert 3 <= len(asked) <= 4


def check_logs(federation, folder):
    """Whatever went wrong, no log holds a key, a secret or a record."""
    secrets = [node.key.read_text().split("\n")[2] for node in federation.nodes.values()]
    secrets += [(node.state / "superexec.secret").read_bytes().hex() for node in federation.nodes.values()]
    secrets += [path.read_bytes().hex() for path in (federation.server.owner, federation.server.secret)]
    row = load("synthetic").train.x[0]
    secrets += [f"{row[0]:.4f}", str(row[0])]
    logs = [*federation.crew.log("superlink").parent.glob("*.log"), *folder.glob("*.log")]
    assert {log.stem for log in logs} >= set(federation.crew.processes) >= {"superlink", "conductor"}
    for log in logs:
        text = log.read_text(errors="replace")
        assert not [secret for secret in secrets if secret in text], log
        assert "PRIVATE KEY" not in text


ROGUE = """
import sys, time
import numpy as np
from gradveil.engines.flower import worker
from gradveil.deployment.node import NODE, Node, NodeSettings
from gradveil.federation.orders import NodeReply
from pathlib import Path

state = Path(sys.argv[1])
node = Node.open(NodeSettings.read(state / NODE))
faults = [
    lambda leaf: leaf * np.nan,
    lambda leaf: leaf[..., :1],
    lambda leaf: np.ones((3, 4_000_000), np.float32),
    lambda leaf: leaf.astype(np.float64),
]

def handle(order):
    honest = node.handle(order)
    if order.t == len(faults):
        raise ValueError(f"the first row is {node.dataset.train.x[0]}")
    if order.t > len(faults):
        time.sleep(60)
    return NodeReply(tuple(map(faults[order.t % len(faults)], honest.update)), honest.statistics)

worker.serve(sys.argv[2], (state / "superexec.secret").read_bytes(), handle)
"""


def test_a_node_that_answers_nonsense_or_late_is_named_each_time_and_never_heard(federation, plan, tmp_path):
    folder = laid_out(replace(plan, rounds=6), tmp_path / "run", deadline=25.0)
    config = federation.nodes["site-2"]
    federation.crew.start("site-2-worker", [sys.executable, "-c", ROGUE, str(config.state), config.address])
    try:
        said = [line.nodes.missing["site-2"] for line in lines_of(federation, folder)]
    finally:
        federation.crew.start("site-2-worker", config.worker())
    for text, expected in zip(
        said, ("not finite", "shape", "shape", "float64", "Flower error", "no reply within 25 s"), strict=True
    ):
        assert expected in text, said
    with np.load(folder / store.PARAMS) as stored:
        assert all(np.isfinite(stored[name]).all() for name in stored.files)
    check_logs(federation, folder)


def outcome(command, home, seconds=45):
    """Run a SuperNode that should be turned away; gives its exit code and what it said."""
    try:
        done = subprocess.run(
            command, env=processes.environment(home), capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        return None, str(error.stdout)
    return done.returncode, done.stdout + done.stderr


def test_nodes_without_a_registered_key_the_right_ca_or_tls_are_refused_and_told_so(federation, tmp_path):
    good = federation.nodes["site-0"]
    credentials.make(tmp_path / "other", ["localhost", "127.0.0.1"], ["stranger"])
    processes.write_secret(tmp_path / "superexec.secret")

    def supernode(ca, key):
        return SuperNodeConfig(ca, key, tmp_path, federation.server.address, processes.free_ports(1)[0]).supernode()

    stranger, strange_ca = tmp_path / "other" / "stranger.key", tmp_path / "other" / credentials.CA
    keyless = supernode(good.ca, stranger)
    del keyless[keyless.index("--auth-supernode-private-key") :][:2]
    cases = {
        "unregistered key": (supernode(good.ca, stranger), "Failed to activate SuperNode"),
        "another CA": (supernode(strange_ca, good.key), "CERTIFICATE_VERIFY_FAILED"),
        "no CA": ([part for part in supernode(good.ca, good.key) if part not in ("--root-certificates", str(good.ca))],
                  "CERTIFICATE_VERIFY_FAILED"),
    }  # fmt: skip
    for name, (command, said) in cases.items():
        code, text = outcome(command, tmp_path / "home")
        assert code not in (0, None), (name, text)
        assert said in text, (name, text)


def test_the_demo_runs_and_leaves_nothing_behind(tmp_path):
    done = subprocess.run(
        [*DEMO, "--nodes", "2", "--rounds", "1", "--json", "--out", "run"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["rounds"], answer["noise_source"]) == (1, "secret")
    assert "round 1:" in done.stderr
    assert not our_processes()


def test_an_interrupted_demo_stops_all_that_it_started(tmp_path):
    command = [*DEMO, "--rounds", "50", "--out", "run"]
    # Tests that are started in the background ignore it, and so would their children.
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler)
    demo = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, heeded)
    for line in demo.stderr:
        if "round 1:" in line:
            break
    assert len(our_processes()) > 8
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=60)
    assert demo.returncode == 130, said
    assert not our_processes()
