"""A secure sum in memory: nodes with keys and a roster, their cards, and attempts that they answer."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from gradveil.aggregation import ring
from gradveil.aggregation.answering import Contribution, answer
from gradveil.aggregation.collecting import collected
from gradveil.aggregation.epoch import Crowd, Epochs
from gradveil.aggregation.masks import Attempt, state_digest
from gradveil.aggregation.noise import secret_bytes, share_deviation
from gradveil.aggregation.roster import KeyRoster, key_line

RUN, PLAN = "0" * 31 + "1", hashlib.sha256(b"plan").hexdigest()
SIZE, RECORDS, Z = 40, 30, 2.0
STATE = state_digest([np.arange(6.0)])


@dataclass
class Federation:
    """Nodes by name; `plain` keeps the noised whole numbers of each answer before its mask, `charged` every charge."""

    signers: dict
    roster: KeyRoster
    crowd: Crowd
    size: int = SIZE
    nodes: dict = field(default_factory=dict)
    vectors: dict = field(default_factory=dict)
    charged: list = field(default_factory=list)

    def start(self, name):
        """Start a node's process, or start it again: nothing of what it remembered is left."""
        self.nodes[name] = Epochs(self.roster, self.signers[name], self.crowd)

    def introduce(self, *names, run=RUN, plan=PLAN):
        return tuple(self.nodes[name].introduce(run, plan) for name in names or sorted(self.nodes))

    def attempt(self, cards, serial=0, **changes):
        told = {"run": RUN, "plan": PLAN, "round": 0, "size": self.size, "tolerated": 1, "state": STATE}
        return Attempt(serial=serial, cards=cards, **(told | changes))

    def answer(self, name, attempt, within=60.0, take=secret_bytes, **more):
        contribution = Contribution(multiplier=Z, records=RECORDS, compute=lambda: self.vectors[name])
        charge = more.pop("charge", lambda told: self.charged.append((name, told.digest)))
        return answer(self.nodes[name], attempt, contribution, charge, within=within, take=take, **more)

    def collected(self, attempt, answers):
        nodes = len(attempt.cards)
        share = share_deviation(Z, attempt.size, RECORDS, nodes, attempt.tolerated)
        return collected(attempt, answers, nodes * RECORDS, share * nodes**0.5)


@pytest.fixture(scope="session")
def signers():
    return {f"site-{i}": ec.generate_private_key(ec.SECP384R1()) for i in range(5)}


def federation_of(signers):
    """Give five nodes that require four in a sum, each with a sum of vectors of its own."""
    roster = KeyRoster({name: key_line(key.public_key()) for name, key in signers.items()})
    made = Federation(dict(signers), roster, Crowd(tolerated=1, minimum_nodes=4))
    random = np.random.default_rng(3)
    for name in signers:
        made.start(name)
        made.vectors[name] = ring.bounded_sum(random.normal(size=(RECORDS, SIZE)), 1.0)
    return made


@pytest.fixture
def federation(signers):
    return federation_of(signers)


@pytest.fixture
def cards(federation):
    return federation.introduce()
