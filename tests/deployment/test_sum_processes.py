"""Secure sums over a real SuperLink and SuperNodes: the bits of one machine, kills, and what the server keeps."""

import json
import os
import signal
import subprocess
import threading

import numpy as np
import pytest
from test_processes import DEMO, QUIET, conductors, kill, lines_of, nothing_is_left_running

from gradveil.aggregation import ring
from gradveil.aggregation.noise import discrete_gaussian, seeded_bytes
from gradveil.data.sources import load
from gradveil.deployment import conductor, supervisor
from gradveil.deployment.conductor import Federation
from gradveil.deployment.local import local
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Spending
from gradveil.engines.contributions import RoundSum, key_words
from gradveil.engines.flower import processes
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.orders import clients_of
from gradveil.federation.rounds import round_task
from gradveil.federation.secure_sum import SecureSum
from gradveil.keys import Keys
from gradveil.methods import FED_SUM
from gradveil.runs import runner, store
from gradveil.runs.presets import resolve

pytestmark = pytest.mark.flower
__all__ = ["nothing_is_left_running"]
SITES = ("site-0", "site-1", "site-2", "site-3", "site-4")
SEEDED = Policy(allow_seeded=True, maximum_epsilon=1e3, maximum_delta=0.01)


def plan_of(nodes, rounds=3, **more):
    changes = {"clients": 2 * nodes, "client_size": 20, "rounds": rounds, "seed": 5} | more
    return resolve("synthetic", load("synthetic"), FED_SUM, changes | {"secure_sum": SecureSum(nodes=nodes)})


@pytest.fixture
def federation(nothing_is_left_running):
    """A server and three to five nodes, which allow seeded noise unless they are given another policy."""
    opened = []

    def start(nodes, policy=SEEDED):
        opened.append(local(SITES[:nodes], "synthetic", policy, sums=True))
        here = opened[0].__enter__()
        supervisor.open_server(here.crew, here.server, SITES[:nodes], QUIET)
        for name in SITES[:nodes]:
            here.start_node(name)
        opened.append(here)
        return here

    yield start
    for name in opened[1].crew.processes:  # shown if the test fails
        print(f"--- {name}", opened[1].crew.log(name).read_text(errors="replace")[-3000:], sep="\n")
    opened[0].__exit__(None, None, None)


def laid_out(plan, folder, **settings):
    given = {"nodes": SITES[: plan.secure_sum.nodes], "deadline": 90.0, "patience": 120.0} | settings
    conductor.lay_out(plan, load("synthetic"), folder, Federation(**given))
    return folder


def spent(federation, name):
    """Give the rounds that a node has charged, one entry an attempt."""
    plans = Spending(federation.nodes[name].state / "spending.json").read().values()
    return [t for served in plans for t in next(iter(served.rounds.values()))]


def plain_vectors(plan):
    """Give what each node adds in the first round, as the bytes of its first numbers: without noise, and with it."""
    data, roots = load("synthetic"), Keys.of(plan.seed, secret=False)
    population, nodes = Population.of(plan, data), plan.secure_sum.nodes
    task = round_task(plan, 0, server.init(plan, data.shape, len(data.classes), roots), roots)
    one = RoundSum.of(plan, 0, task.params, data.shape)
    for node in range(nodes):
        rows = population.rows(clients_of(node, nodes, np.arange(plan.clients)))
        own = ring.encode(one.added(task.params, population.x[rows], population.y[rows]))
        drawn = discrete_gaussian(one.deviation(nodes), one.size, seeded_bytes(*key_words(plan, task), node))
        yield own[:2].tobytes()
        yield (own + drawn.astype(np.uint64))[:2].tobytes()


class Watcher(threading.Thread):
    """Reads all files of the server again and again while a run goes on, and looks for byte strings."""

    def __init__(self, folders, wanted):
        super().__init__(daemon=True)
        self.folders, self.wanted, self.found, self.over = folders, wanted, set(), threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            self.look()

    def look(self):
        for path in (path for folder in self.folders for path in folder.rglob("*")):
            try:
                content = path.read_bytes() if path.is_file() else b""
            except OSError:
                continue
            self.found |= {name for name, mark in self.wanted.items() if mark in content}


def test_three_nodes_give_the_digest_of_one_machine_and_no_file_of_the_server_holds_what_one_added(
    federation, tmp_path
):
    plan, here = plan_of(3), federation(3)
    folder = laid_out(plan, tmp_path / "run")
    marks = {i: vector for i, vector in enumerate(plain_vectors(plan))} | {"control": b"'descr': '<u8'"}
    watcher = Watcher([here.server.state, here.server.keys, folder], marks)
    watcher.start()
    lines = lines_of(here, folder)
    watcher.over.set()
    watcher.join()
    watcher.look()
    assert watcher.found == {"control"}  # answers were seen on their way, and none was a plain one
    assert [line.attempts for line in lines] == [1, 1, 1]
    alone = runner.prepare(plan, load("synthetic"), tmp_path / "alone", runner.Options())
    for _ in runner.proceed(alone):
        pass
    result = store.read_json(folder / store.RESULT)
    assert result["params_sha256"] == runner.conclude(alone).params_sha256
    assert [spent(here, name) for name in SITES[:3]] == [[0, 1, 2]] * 3
    assert {"aggregate", "central-visible", "alone"} <= {g["threat_model"] for g in result["guarantees"]}


def test_a_killed_node_is_left_out_of_the_next_attempt_and_both_are_charged(federation, tmp_path):
    plan, here = plan_of(4), federation(4)
    folder = laid_out(plan, tmp_path / "run")

    def meanwhile(line):
        if line.round == 0:
            for part in ("supernode", "worker"):
                os.killpg(here.crew.processes[f"site-3-{part}"].pid, signal.SIGKILL)

    lines = lines_of(here, folder, meanwhile)
    assert [line.round for line in lines] == [0, 1, 2]
    assert lines[0].nodes.missing == {}
    assert set(lines[1].nodes.missing) == {"site-3"}
    assert lines[1].attempts == 2
    assert spent(here, "site-0").count(1) == 2
    noted = [json.loads(line)["round"] for line in (folder / "attempts.jsonl").read_text().splitlines()]
    assert noted.count(1) == 2
    assert store.read_json(folder / store.RESULT)["max_participations"] == len(noted)


def test_a_restarted_worker_a_killed_server_and_a_killed_superlink_cost_attempts_and_nothing_leaves_twice(
    federation, tmp_path
):
    """Three nodes, who must all answer: one that is killed is waited for until it is back."""
    plan, here = plan_of(3, rounds=4), federation(3)
    folder = laid_out(plan, tmp_path / "run")
    supervisor.begin(here.crew, here.server, folder, QUIET)
    following = supervisor.follow(here.crew, here.server, folder, QUIET)
    assert next(following).round == 0
    here.crew.start("site-1-worker", here.nodes["site-1"].worker())  # kills the old one
    second = next(following)
    assert (second.round, second.nodes.missing) == (1, {})
    kill(conductors())
    with pytest.raises(processes.Failed, match="restart with --resume"):
        list(following)
    first = here.crew.processes["superlink"]

    def meanwhile(line):
        if line.round == 2:
            os.killpg(first.pid, signal.SIGKILL)

    lines = lines_of(here, folder, meanwhile)
    assert here.crew.processes["superlink"] is not first
    assert lines[-1].round == 3
    noted = [json.loads(line)["round"] for line in (folder / "attempts.jsonl").read_text().splitlines()]
    result = store.read_json(folder / store.RESULT)
    assert result["max_participations"] == len(noted) >= 5
    for name in SITES[:3]:  # every answer belongs to an attempt that the server noted before it asked
        charged = spent(here, name)
        assert all(charged.count(t) <= noted.count(t) for t in range(4))
        assert set(charged) == {0, 1, 2, 3}


def test_the_demo_trains_fed_sum_over_real_nodes(tmp_path):
    asked = ["--nodes", "3", "--method", "fed-sum", "--target-epsilon", "3", "--threat-model", "aggregate"]
    command = [*DEMO, *asked, "--json", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    epsilons = {g["threat_model"]: g["epsilon"] for g in result["guarantees"]}
    assert 2.9 < epsilons["aggregate"] <= 3
    assert epsilons["central-visible"] < epsilons["aggregate"] < epsilons["alone"]
    assert result["accuracy"] > 0.85
    assert "A failed attempt is spent too" in done.stderr
