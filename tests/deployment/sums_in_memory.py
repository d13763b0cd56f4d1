"""Secure sums without a network: the real server engine and the real nodes, messages handed over in memory."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from nodes_in_memory import MemoryGrid, data

from gradveil.aggregation.roster import KeyRoster, key_line
from gradveil.data.partition import Iid
from gradveil.data.sampling import Whole
from gradveil.deployment.node import Node
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Spending
from gradveil.deployment.summing import Summing, epochs_of
from gradveil.engines.flower import sum_wire
from gradveil.engines.flower.flower_engine import Roster
from gradveil.engines.flower.posting import Posting
from gradveil.engines.flower.sum_engine import SummingFlower
from gradveil.federation import server
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import round_task, rounds
from gradveil.federation.secure_sum import SecureSum
from gradveil.keys import Keys
from gradveil.methods import FED_SUM
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.schedule import Constant

SITES = ("site-0", "site-1", "site-2", "site-3")
SUMS = Plan(
    dataset="tiny",
    method=replace(FED_SUM, noise=Constant(2.0)),
    clients=8,
    cohort=8,
    rounds=4,
    local_steps=1,
    batch=15,
    client_size=15,
    learning_rate=5.0,
    model=SoftmaxRegression(mean=NoisedMean(0.2), moment=NoisedSecondMoment(0.5)),
    partition=Iid(),
    sampling=Whole(),
    seed=7,
    secure_sum=SecureSum(nodes=4),
)
OPEN = Policy(allow_seeded=True, maximum_epsilon=100.0, maximum_delta=0.01)


@pytest.fixture(scope="session")
def signers():
    return {name: ec.generate_private_key(ec.SECP384R1()) for name in SITES}


@dataclass
class Sums:
    """Four nodes in memory and the engine that asks them; `noted` has every attempt as a journal would."""

    folder: object
    signers: dict
    policy: Policy
    plan: Plan
    grid: MemoryGrid = None
    noted: list = None

    def __post_init__(self):
        self.grid, self.noted = MemoryGrid({name: self.started(name) for name in SITES}), []

    @property
    def roster(self):
        return KeyRoster({name: key_line(key.public_key()) for name, key in self.signers.items()})

    def started(self, name):
        """Start a node, or start it again: what it wrote is there, what it remembered is not."""
        spending = Spending(self.folder / name / "spending.json")
        node = Node(data(), self.policy, spending, (SITES.index(name), len(SITES)))
        return Summing(node, epochs_of(self.policy, self.roster, self.signers[name]))

    def restart(self, name):
        self.grid.sites[name] = self.started(name)

    def engine(self, plan=None, **options):
        return SummingFlower(
            plan or self.plan,
            self.plan.secure_sum,
            data(),
            Posting(self.grid, lambda: self.grid.now),
            Roster(SITES, deadline=10.0, patience=30.0, gathering=5.0),
            lambda t, cohort: self.noted.append(t),
            **options,
        )

    def task(self, t=0):
        """Give the task of a round, from the first weights."""
        shown, roots = data(), Keys.of(self.plan.seed, secret=False)
        return round_task(self.plan, t, server.init(self.plan, shown.shape, len(shown.classes), roots), roots)

    def ask(self, name, request):
        """Hand a request to a node as the network would, and give its result."""
        return self.grid.sites[name].handle(sum_wire.unpack_request(sum_wire.pack_request(request)))

    def opened(self, **options):
        """Make an engine and open its run at every node: the engine, and the cards by name."""
        engine = self.engine(**options)
        return engine, tuple(self.ask(name, engine.introduce(name, self.task())) for name in SITES)

    def told(self, engine, cards, t=0, serial=0):
        """Give the order of each node of an attempt."""
        engine.serial = serial
        return {card.name: engine.order_for(card.name, cards, self.task(t)) for card in cards}

    def spent(self, name):
        """Give the rounds that a node has charged, from disk, one entry an attempt."""
        plans = Spending(self.folder / name / "spending.json").read().values()
        return [t for served in plans for t in next(iter(served.rounds.values()))]


@pytest.fixture
def sums(tmp_path, signers):
    """Make four nodes in memory for a plan and a policy."""

    def make(plan=SUMS, policy=OPEN):
        return Sums(tmp_path, signers, policy, plan)

    return make


def trained(plan, engine, meanwhile=lambda done: None, may_retry=lambda state: True):
    """Give the parameters after all rounds, as arrays."""
    roots, shown = Keys.of(plan.seed, secret=False), data()
    state = server.init(plan, shown.shape, len(shown.classes), roots)
    for done in rounds(plan, engine, state, roots, 0, may_retry):
        state = done.state
        meanwhile(done)
    return [np.asarray(leaf) for leaf in state.params]
