"""Secure sums whose server and nodes are killed by kill -9 in every gap between two messages or files."""

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import mortal_processes
import pytest
from mortal_processes import ANSWERED, ASKED, BEGUN, BOUND, ENDED, kind, post, read

from gradveil.data.sources import load
from gradveil.deployment import conductor
from gradveil.deployment.conductor import Federation
from gradveil.deployment.journal import JOURNAL, Journal
from gradveil.deployment.local import local
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Spending
from gradveil.engines.flower import sum_wire
from gradveil.engines.flower.commands import environment
from gradveil.engines.local_sums import LocalSums
from gradveil.federation import server
from gradveil.federation.engine import Population, TooFew
from gradveil.federation.rounds import rounds
from gradveil.federation.secure_sum import SecureSum
from gradveil.keys import Keys
from gradveil.methods import FED_SUM
from gradveil.runs import store
from gradveil.runs.presets import resolve

pytestmark = pytest.mark.flower
SITES = ("site-0", "site-1", "site-2")
SERVER = "server"
ROUNDS = 4


@dataclass
class Stage:
    """The processes of one run, by name. safe: the gaps in which each has died already; None: it dies in none."""

    mail: Path
    folder: Path
    states: dict
    forker: subprocess.Popen
    logs: Path
    safe: dict
    alive: dict = field(default_factory=dict)
    deaths: Counter = field(default_factory=Counter)

    def start(self, name):
        """Start the server or a node, or start it again."""
        log, watched = self.logs / f"{name}-{self.deaths[name]}", self.states.get(name, self.folder)
        own = {"role": "server", "folder": self.folder, "names": SITES}
        if name in self.states:
            own = {"role": "node", "state": watched, "name": name}
        told = {"mail": self.mail, "log": log, "watched": watched, "safe": self.safe[name]} | own
        self.forker.stdin.write(json.dumps(told, default=str) + "\n")
        self.forker.stdin.flush()
        self.alive[name] = int(self.forker.stdout.readline()), log

    def run(self):
        """Start everybody, and whoever has died again, until the server has come to its end."""
        for name in (*SITES, SERVER):
            self.start(name)
        self.revive_until(lambda: SERVER not in self.alive)

    def revive_until(self, over):
        """Look after the processes: one that has died is started again, one that has ended is not."""
        end = time.monotonic() + BOUND
        while not over():
            assert time.monotonic() < end
            for name, (number, log) in list(self.alive.items()):
                if not Path(f"/proc/{number}").exists():
                    self.bury(name, json.loads(log.read_text().splitlines()[-1]))
            time.sleep(0.02)

    def bury(self, name, last):
        """Check the laws after a death, and start the process again. last: the gap of the death, or that it ended."""
        del self.alive[name]
        self.holds()
        if last != ENDED:
            self.safe[name].append(last)
            self.deaths[name] += 1
            self.start(name)

    def left(self):
        """Give what has left the nodes, taken or not: node, round, key of the noise, attempt and vector."""
        for path in sorted(self.mail.glob(f"*.{ANSWERED}")):
            answer = read(path)
            if "masked" in answer:
                sent, name = sum_wire.unpack_answer(answer), path.name.split(".")[1]
                order = sum_wire.unpack_request(read(path.with_suffix(f".{ASKED}")))
                yield name, order.order.t, order.order.key, sent.attempt, sent.masked.tobytes()

    def cards(self):
        """Give every card that a node has sent."""
        contents = [read(path) for path in self.mail.glob(f"*.{ANSWERED}")]
        return [sum_wire.unpack_card(content) for content in contents if kind(content) == "card"]

    def replayed(self):
        """Send every order once more to its node, and give what the answers are."""
        asked = [path for path in self.mail.glob(f"*.{ASKED}") if kind(read(path)) == "order"]
        again = [path.with_name(f"again-{path.name}") for path in asked]
        for old, new in zip(asked, again, strict=True):
            post(new, read(old))
        answers = [path.with_suffix(f".{ANSWERED}") for path in again]
        self.revive_until(lambda: all(path.exists() for path in answers))
        return {kind(read(path)) for path in answers}

    def holds(self):
        """Check the laws: no attempt, no noise and no key of masks serves twice; what leaves was charged and noted."""
        left, keys = list(self.left()), [card.key for card in self.cards()]
        assert len({(name, attempt) for name, *_, attempt, _ in left}) == len(left)
        assert len({(name, key) for name, _, key, *_ in left}) == len(left)
        assert len({vector for *_, vector in left}) == len(left)
        assert len(set(keys)) == len(keys)
        noted = Counter(t for t, _ in Journal(self.folder / JOURNAL).entries())
        for name, state in self.states.items():
            plans = Spending(state / "spending.json").read().values()
            charged = Counter(t for served in plans for t in next(iter(served.rounds.values())))
            assert Counter(t for site, t, *_ in left if site == name) <= charged <= noted


@pytest.fixture
def stage(tmp_path):
    """Keys, roster and policy of three nodes, a run folder, and the program that forks processes."""
    policy = Policy(methods=("fed-sum",), allow_seeded=True, maximum_epsilon=1e4, maximum_delta=0.01)
    changes = {"clients": 6, "client_size": 20, "rounds": ROUNDS, "seed": 5}
    plan = resolve("synthetic", load("synthetic"), FED_SUM, changes | {"secure_sum": SecureSum(nodes=3)})
    settings = Federation(nodes=SITES, deadline=300.0, attempts=1000)
    conductor.lay_out(plan, load("synthetic"), tmp_path / "run", settings)
    for name in ("mail", "logs"):
        (tmp_path / name).mkdir()
    with local(SITES, "synthetic", policy, sums=True) as here:
        program, errors = [sys.executable, mortal_processes.__file__], (tmp_path / "errors").open("wb")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors, "text": True}
        forker = subprocess.Popen(program, env=environment(tmp_path), **pipes)
        states, nobody = {name: node.state for name, node in here.nodes.items()}, dict.fromkeys((*SITES, SERVER))
        yield Stage(tmp_path / "mail", tmp_path / "run", states, forker, tmp_path / "logs", nobody)
        forker.kill()  # its children end with it
        forker.communicate()
        errors.close()
        print((tmp_path / "errors").read_text()[-5000:])  # shown if the test fails


def written(name):
    """Give the steps in which a file is written."""
    return f"open .{name}.partial", f"rename to {name}"


def gaps(*steps):
    """Give the gaps between steps that follow one another."""
    return {(a, b) for a, b in pairwise(steps)}


CALLED = "send roll-call to site-0", "send roll-call to site-1", "send roll-call to site-2"
ORDERED = "send order to site-0", "send order to site-1", "send order to site-2"
REPLIES = "take reply 1", "take reply 2", "take reply 3"
STATUS, LATEST, NOTED, LINE = (
    written(conductor.STATUS),
    written(Path(store.LATEST).name),
    f"open {JOURNAL}",
    "open metrics.jsonl",
)
OF_SERVER = (
    gaps(BEGUN, *STATUS, *LATEST, *CALLED, *REPLIES, NOTED, *ORDERED, *REPLIES, *LATEST, LINE, *STATUS, NOTED)
    | gaps(STATUS[-1], CALLED[0])  # resumed
    | gaps(STATUS[-1], LINE, CALLED[0])  # resumed where a checkpoint was written and its line was not
    | gaps(STATUS[-1], *written(store.PARAMS), *written(store.RESULT), *STATUS, ENDED)
)
CHARGED = written("spending.json")
OF_NODE = (
    gaps(BEGUN, "take roll-call", "send card", "take order", *CHARGED, "send answer", "take order")
    | gaps(BEGUN, "take order", "send refusal", "take roll-call")  # an order that the dead process had taken
)


@dataclass
class Failing:
    """One machine without network or kills, whose attempts fail as often as a journal says."""

    engine: LocalSums
    left: Counter

    def train(self, task, cohort):
        self.left[int(task.t)] -= 1
        if self.left[int(task.t)] > 0:
            raise TooFew("as in the journal")
        return self.engine.train(task, cohort)


def undisturbed(folder):
    """Give the digest of the parameters that one machine trains, with as many attempts as the journal has."""
    plan, data, roots = store.read_plan(folder), load("synthetic"), Keys.of(5, secret=False)
    noted = Counter(t for t, _ in Journal(folder / JOURNAL).entries())
    engine = Failing(LocalSums(plan, Population.of(plan, data)), noted)
    *_, last = rounds(plan, engine, server.init(plan, data.shape, len(data.classes), roots), roots)
    return store.params_digest(last.state.params)


def completed(stage):
    """Check what a run must come to, to the bit, whoever was killed; then no node answers an old order."""
    assert store.read_json(stage.folder / conductor.STATUS)["state"] == conductor.DONE
    assert [line.round for line in store.read_metrics(stage.folder)] == list(range(ROUNDS))
    noted = len(Journal(stage.folder / JOURNAL).entries())
    assert store.read_json(stage.folder / store.RESULT)["max_participations"] == noted
    assert store.read_json(stage.folder / store.RESULT)["params_sha256"] == undisturbed(stage.folder)
    stage.holds()
    assert stage.replayed() == {"refusal"}


def test_a_server_that_is_killed_in_every_gap_comes_to_its_end_and_no_vector_leaves_twice(stage):
    stage.safe[SERVER] = []
    stage.run()
    assert set(map(tuple, stage.safe[SERVER])) >= OF_SERVER
    completed(stage)


def test_a_node_that_is_killed_in_every_gap_and_a_server_after_failed_attempts(stage):
    """The server lives on in the gaps of the test above, and dies in those that only failed attempts have."""
    stage.safe |= {SERVER: sorted(OF_SERVER), "site-1": []}
    stage.run()
    assert set(map(tuple, stage.safe["site-1"])) >= OF_NODE
    assert [gap for gap in stage.safe[SERVER][len(OF_SERVER) :] if gap[0] in REPLIES and gap[1] == CALLED[0]]
    completed(stage)
