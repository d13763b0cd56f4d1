"""A hostile server app against real processes of Flower: every way that the table of docs/secure-sum.md names."""

import json
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flwr.app import ConfigRecord, RecordDict
from test_processes import nothing_is_left_running
from test_sum_processes import SITES, federation, plan_of, spent

from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.cards import introduce
from gradveil.aggregation.collecting import Spoiled, collected
from gradveil.aggregation.ring import RESOLUTION
from gradveil.data.sources import load
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Served
from gradveil.engines.contributions import RoundSum
from gradveil.engines.flower import control, sum_wire
from gradveil.engines.flower.flower_engine import Roster
from gradveil.engines.flower.posting import Posting
from gradveil.engines.flower.sum_engine import SummingFlower
from gradveil.engines.sum_messages import attempt_of
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.ledger import numbers_noised
from gradveil.federation.orders import Refusal
from gradveil.federation.plan import NoiseSource
from gradveil.federation.rounds import round_task
from gradveil.keys import Keys
from gradveil.methods import FED_SUM
from gradveil.privacy.schedule import Constant

pytestmark = pytest.mark.flower
__all__ = ["federation", "nothing_is_left_running"]
NAMES = SITES[:3]
PLAN = plan_of(3, rounds=4, noise_source=NoiseSource.SECRET)
T = 2
"""A round that sums gradients, as the next one does: their sums have one size."""
AFFORDED = 5
"""Attempts at such a round that a node's policy allows."""
OWN = ec.generate_private_key(ec.SECP384R1())
"""A key of the server's own making."""


def limit():
    """Give the epsilon of as many attempts as are afforded."""
    data = load("synthetic")
    served = Served(PLAN, 1, 1, {}, numbers_noised(PLAN, data.shape, len(data.classes)))
    for _ in range(AFFORDED):
        served = served.with_round(T, [0])
    return served.epsilon("aggregate")


@dataclass
class Hostile:
    """A server app that says what it likes. cards: of the first roll-call, sorted by name."""

    engine: SummingFlower
    cards: tuple = ()

    def ask(self, requests):
        """Send each node its request, or records of any content, and give what each answered."""
        contents = {
            name: request if isinstance(request, RecordDict) else sum_wire.pack_request(request)
            for name, request in requests.items()
        }
        posted = self.engine.posting.exchange(contents, 60.0, "0")
        return {name: result_of(posted[name]) for name in requests}

    def task(self, t=T):
        """Give the task of a round, from the first weights."""
        data, roots = load("synthetic"), Keys.of(5, secret=False)
        return round_task(PLAN, t, server.init(PLAN, data.shape, len(data.classes), roots), roots)

    def introductions(self, plan=PLAN):
        """Give what each node is asked in a roll-call for a plan."""
        asked = {name: self.engine.introduce(name, self.task(0)) for name in NAMES}
        return {name: replace(one, about=replace(one.about, plan=plan)) for name, one in asked.items()}

    def told(self, serial, t=T, cards=None):
        """Give the order of each node of an attempt."""
        self.engine.serial = serial
        return {name: self.engine.order_for(name, cards or self.cards, self.task(t)) for name in NAMES}


def result_of(posted):
    """Give the card, the answer or the refusal in a reply; an error would tell more than a refusal."""
    assert posted.content is not None, posted.fault
    unpack = sum_wire.unpack_card if sum_wire.CARD in posted.content else sum_wire.unpack_answer
    return unpack(posted.content)


@pytest.fixture
def hostile(federation):
    """Three real nodes that require secret noise and limit epsilon, and the app; with the federation's files."""
    policy = Policy(methods=("fed-sum",), minimum_sigma=1.0, maximum_epsilon=limit(), maximum_delta=0.01)
    here = federation(3, policy)
    control.register(here.server, NAMES)
    with control.run(here.server) as grid:
        data = load("synthetic")
        app = Hostile(SummingFlower(PLAN, PLAN.secure_sum, data, Posting(grid), Roster(NAMES, deadline=60.0)))
        end = time.monotonic() + 120
        while len(app.engine.posting.online(NAMES)) < 3 and time.monotonic() < end:
            time.sleep(0.5)
        yield app, here


def of_order(**changes):
    """Give a lie that changes what an order says of the round."""
    return lambda told, cards: replace(told, order=replace(told.order, **changes))


def with_cards(change):
    """Give a lie that changes the cards of an order."""
    return lambda told, cards: replace(told, cards=change(cards))


def with_a_client_left_out(told, cards):
    return replace(told, order=replace(told.order, clients=told.order.clients[:1]))


def with_no_colluders(told, cards):
    """Give records of a plan that no constructor lets us make."""
    content = sum_wire.pack_request(told)
    fields = json.loads(content["order"]["json"])
    fields["plan"]["secure_sum"]["tolerated"] = 0
    content["order"] = ConfigRecord({"json": json.dumps(fields)})
    return content


def invented(cards, name="site-9"):
    """Give the card of a node that is not there, signed by the server."""
    return introduce(name, cards[0].run, cards[0].plan, cards[0].roster, OWN)[1]


def in_the_middle(cards):
    key = X25519PrivateKey.generate().public_key().public_bytes_raw()
    return (*cards[:2], replace(cards[2], key=key))


REFUSED = (
    {
        "site-0": (
            with_cards(lambda cards: (*cards[:2], invented(cards))),
            "cards: site-9 is not in the roster of this node",
        ),
        "site-1": (with_cards(in_the_middle), "cards: that of site-2 is not signed by its key"),
        "site-2": (with_cards(lambda cards: cards[1:]), "nodes = 2: this node requires at least 3 in a sum"),
    },
    {
        "site-0": (
            of_order(plan=replace(PLAN, learning_rate=1.0)),
            "plan: is not the one that this run was introduced",
        ),
        "site-1": (lambda told, cards: told.order, "secure_sum: what this node adds is sent under masks only"),
        "site-2": (with_cards(lambda cards: cards[:2]), "cards: this node's current one is missing"),
    },
    {
        "site-0": (with_a_client_left_out, "clients: a secure sum is over all clients of a node"),
        "site-1": (of_order(node=0, clients=np.array([0, 3])), "shard = 0/3: this node holds 1/3"),
        "site-2": (with_cards(lambda cards: (*cards, invented(cards))), "cards: 4 are more than the plan's nodes = 3"),
    },
    {
        "site-0": (
            with_cards(lambda cards: (*cards[:2], invented(cards, "site-2"))),
            "cards: that of site-2 is not signed by its key",
        ),
        "site-1": (with_no_colluders, "secure_sum.tolerated = 0: must be at least 1"),
        "site-2": (lambda told, cards: replace(told, within=0.0), "within = 0: the time for an answer is over"),
    },
)
"""By node of one exchange: a lie, and the sentence with which it is refused."""


def refused_plans(app):
    """Ask for cards for plans that the policy forbids; a node that was introduced already gives another card."""
    quiet = replace(PLAN, method=replace(FED_SUM, noise=Constant(0.5)))
    plans = {"site-0": replace(PLAN, noise_source=NoiseSource.SEEDED), "site-1": PLAN, "site-2": quiet}
    asked = {name: app.introductions(plan)[name] for name, plan in plans.items()}
    asked["site-0"] = replace(asked["site-0"], about=replace(asked["site-0"].about, key=(1, 2)))
    answers = app.ask(asked)
    assert answers["site-0"].reason.startswith("noise_source = seeded: the server could subtract the noise")
    assert answers["site-2"].reason.startswith("sigma = 0.5: the least noise on what the server sees")
    return answers["site-1"]


def random(vector):
    """Whether numbers are far larger than any sum could be."""
    return np.abs(vector.view(np.int64).astype(float)).max() > 2.0**55


def added(told, answers):
    """Give what the server gets if it adds answers up as if all had been told the same; Spoiled if that is no sum."""
    one = RoundSum.of(PLAN, T, Hostile(None).task().params, load("synthetic").shape)
    attempt = attempt_of(told["site-0"], one.size)
    same = {name: SumAnswer(attempt.digest, answer.masked) for name, answer in answers.items()}
    return collected(attempt, same, 120, one.deviation(3) * 3**0.5).view(np.int64) / RESOLUTION


def lies(app, cards):
    """Tell one node other weights, then another round: both times all answer, and the sum is none."""
    for serial, name in enumerate(("weights", "round"), 10):
        told = app.told(serial, cards=cards)
        other = app.told(serial, T + 1, cards)["site-1"]
        if name == "weights":
            order = told["site-1"].order
            other = of_order(params=(*order.params[:-1], order.params[-1] + np.float32(1)))(told["site-1"], cards)
        answers = app.ask(told | {"site-1": other})
        with pytest.raises(Spoiled, match="larger than honest answers"):
            added(told, answers)


def overflowing(app, serial, cards):
    """Give orders with weights at which the vectors of some records overflow and those of others do not."""
    told = app.told(serial, cards=cards)
    *rest, last = told["site-0"].order.params
    params, population = (*rest, np.full_like(last, 3e38)), Population.of(PLAN, load("synthetic"))
    one = RoundSum.of(PLAN, T, app.task().params, load("synthetic").shape)
    alone = [one.added(params, population.x[i : i + 1], population.y[i : i + 1]) for i in range(20)]
    assert 0 < sum(vector.any() for vector in alone) < 20
    return {name: of_order(params=params)(order, cards) for name, order in told.items()}


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own, when it packs an app
def test_a_hostile_server_app_gets_refusals_or_random_numbers_from_real_nodes(hostile):
    app, here = hostile
    app.cards = former = tuple(app.ask(app.introductions()).values())
    cards = (former[0], refused_plans(app), former[2])  # site-1 has another card now
    for serial, lie in enumerate(REFUSED):
        told = app.told(serial, cards=cards)
        answers = app.ask({name: tell(told[name], cards) for name, (tell, _) in lie.items()})
        for name, (_, why) in lie.items():
            assert isinstance(answers[name], Refusal), (name, why)
            assert answers[name].reason.startswith(why)
    assert [spent(here, name) for name in NAMES] == [[], [], []]
    lies(app, cards)
    # The server pretends that site-1 takes part, by a card that it gave once and that is genuine.
    pretended = app.ask(app.told(20))
    assert "this node's current one is missing" in pretended.pop("site-1").reason
    assert random(sum(answer.masked for answer in pretended.values()))
    told = app.told(21, cards=cards)
    answers = app.ask(told)
    most = 6 * PLAN.method.noise.sigma * (3 / 2) ** 0.5
    assert np.abs(added(told, answers)).max() < 120 + most
    assert random(answers["site-0"].masked + answers["site-1"].masked)
    vast = overflowing(app, 22, cards)
    assert np.abs(added(vast, app.ask(vast))).max() < 120 + most  # a sum, and no error that would tell
    assert [len(spent(here, name)) for name in NAMES] == [AFFORDED, AFFORDED - 1, AFFORDED]
    again = app.ask(app.told(23, cards=cards) | {"site-0": told["site-0"]})
    assert again["site-0"].reason == "serial = 21: must be above 22, which was asked before"
    assert (again["site-1"].masked != answers["site-1"].masked).any()
    assert "would be spent in all, and this node allows" in again["site-2"].reason
    assert [spent(here, name) for name in NAMES] == [[2, 2, 2, 2, 2], [2, 3, 2, 2, 2], [2, 2, 2, 2, 2]]
