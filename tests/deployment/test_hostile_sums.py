"""A hostile server app against real processes of Flower: every way that the table of docs/secure-sum.md names."""

import json
import secrets
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flwr.app import ConfigRecord, RecordDict
from scipy import stats
from test_processes import nothing_is_left_running
from test_sum_processes import SITES, federation, plan_of, spent

from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.cards import introduce
from gradveil.aggregation.collecting import Spoiled, collected
from gradveil.aggregation.ring import RESOLUTION
from gradveil.data.sources import load
from gradveil.deployment import enrollment
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
from gradveil.federation.orders import Refusal, clients_of
from gradveil.federation.plan import NoiseSource
from gradveil.federation.rounds import round_task
from gradveil.federation.secure_sum import SecureSum
from gradveil.keys import Keys
from gradveil.methods import FED_SUM
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant

pytestmark = pytest.mark.flower
__all__ = ["federation", "nothing_is_left_running"]
NAMES = SITES[:5]
PLAN = replace(plan_of(5, rounds=4, noise_source=NoiseSource.SECRET), secure_sum=SecureSum(nodes=5, tolerated=2))
HUGE = replace(PLAN, method=replace(FED_SUM, clip=Flat(1e6)))
"""A plan whose bound C no record reaches."""
Z = PLAN.method.noise.sigma
T = 2
"""A round that sums gradients, as the next one does: their sums have one size."""
AFFORDED = 7
"""Attempts at such a round of PLAN that a node's policy allows, beside one of HUGE."""
OWN = ec.generate_private_key(ec.SECP384R1())
"""A key of the server's own making."""


def limit():
    """Give the epsilon of as many attempts as are afforded."""
    data, spent = load("synthetic"), 0.0
    for plan, attempts in ((PLAN, AFFORDED), (HUGE, 1)):
        served = Served(plan, 1, 1, {}, numbers_noised(plan, data.shape, len(data.classes)))
        for _ in range(attempts):
            served = served.with_round(T, [0])
        spent += served.epsilon("aggregate")
    return spent


@dataclass
class Hostile:
    """A server app that says what it likes. signer: the key of site-4, which colludes; cards: of a roll-call."""

    engine: SummingFlower
    signer: ec.EllipticCurvePrivateKey
    cards: tuple = ()

    def ask(self, requests):
        """Send each node its request, or records of any content, and give what each answered."""
        contents = {
            name: request if isinstance(request, RecordDict) else sum_wire.pack_request(request)
            for name, request in requests.items()
        }
        posted = self.engine.posting.exchange(contents, 60.0, "0")
        return {name: result_of(posted[name]) for name in requests}

    def introductions(self, t=0):
        """Give what each node is asked in a roll-call."""
        return {name: self.engine.introduce(name, task(t)) for name in NAMES}

    def told(self, serial, t=T, cards=None):
        """Give the order of each node of an attempt."""
        cards, self.engine.serial = cards or self.cards, serial
        return {card.name: self.engine.order_for(card.name, cards, task(t)) for card in cards}


def task(t=T):
    """Give the task of a round, from the first weights."""
    data, roots = load("synthetic"), Keys.of(5, secret=False)
    return round_task(PLAN, t, server.init(PLAN, data.shape, len(data.classes), roots), roots)


def result_of(posted):
    """Give the card, the answer or the refusal in a reply; an error would tell more than a refusal."""
    assert posted.content is not None, posted.fault
    unpack = sum_wire.unpack_card if sum_wire.CARD in posted.content else sum_wire.unpack_answer
    return unpack(posted.content)


@pytest.fixture
def hostile(federation):
    """Five real nodes that require secret noise and limit epsilon, and the app; with the federation's files."""
    rules = {"methods": ("fed-sum",), "minimum_sigma": 1.0, "maximum_epsilon": limit(), "maximum_delta": 0.01}
    here = federation(5, Policy(tolerated=2, **rules))
    control.register(here.server, NAMES)
    with control.run(here.server) as grid:
        engine = SummingFlower(PLAN, PLAN.secure_sum, load("synthetic"), Posting(grid), Roster(NAMES, deadline=60.0))
        app = Hostile(engine, enrollment.read_signer(here.nodes["site-4"].key))
        end = time.monotonic() + 120
        while len(app.engine.posting.online(NAMES)) < 5 and time.monotonic() < end:
            time.sleep(0.5)
        yield app, here


def of_order(**changes):
    """Give a lie that changes what an order says of the round."""
    return lambda told, app: replace(told, order=replace(told.order, **changes))


def with_cards(change):
    """Give a lie that changes the cards of an order."""
    return lambda told, app: replace(told, cards=change(app.cards))


def with_last_card(change):
    """Give a lie that puts another card in the place of site-4's."""
    return lambda told, app: replace(told, cards=(*app.cards[:4], change(app)))


def with_no_colluders(told, app):
    """Give records of a plan that no constructor lets us make."""
    content = sum_wire.pack_request(told)
    fields = json.loads(content["order"]["json"])
    fields["plan"]["secure_sum"]["tolerated"] = 0
    content["order"] = ConfigRecord({"json": json.dumps(fields)})
    return content


def invented(app, name="site-9"):
    """Give the card of a node that is not there, signed by the server."""
    return introduce(name, app.cards[0].run, app.cards[0].plan, app.cards[0].roster, OWN)[1]


def in_the_middle(app):
    """Give site-4's card with a key of the server's."""
    return replace(app.cards[4], key=X25519PrivateKey.generate().public_key().public_bytes_raw())


def of_another_roster(app):
    """Give a card that site-4 signed for a roster of which the others know nothing."""
    return introduce("site-4", app.cards[0].run, app.cards[0].plan, "0" * 64, app.signer)[1]


def stamped(app):
    """Give a card with what a node's key signs for Flower, the time."""
    stamp = app.signer.sign(b"2026-11-16T19:00:00+00:00", ec.ECDSA(hashes.SHA256()))
    return replace(app.cards[4], signature=stamp)


REFUSED = (
    {
        "site-0": (with_last_card(invented), "cards: site-9 is not in the roster of this node"),
        "site-1": (with_last_card(in_the_middle), "cards: that of site-4 is not signed by its key"),
        "site-2": (with_cards(lambda cards: cards[:3]), "nodes = 3: this node requires at least 4 in a sum"),
        "site-3": (of_order(clients=np.array([3])), "clients: a secure sum is over all clients of a node"),
        "site-4": (lambda told, app: replace(told, within=0.0), "within = 0: the time for an answer is over"),
    },
    {
        "site-0": (of_order(plan=replace(PLAN, learning_rate=1.0)), "plan: is not the one that this run was introduc"),
        "site-1": (lambda told, app: told.order, "secure_sum: what this node adds is sent under masks only"),
        "site-2": (with_cards(lambda cards: (*cards[:2], *cards[3:])), "cards: this node's current one is missing"),
        "site-3": (with_last_card(of_another_roster), "cards: that of site-4 is for another run, plan or roster"),
        "site-4": (of_order(node=0, clients=np.array([0, 5])), "shard = 0/5: this node holds 4/5"),
    },
    {
        "site-0": (with_last_card(lambda app: invented(app, "site-4")), "cards: that of site-4 is not signed by its"),
        "site-1": (with_no_colluders, "secure_sum.tolerated = 0: must be at least 1"),
        "site-2": (
            lambda told, app: replace(told, cards=(*app.cards, invented(app))),
            "cards: 6 are more than the plan's nodes = 5",
        ),
        "site-3": (with_last_card(stamped), "cards: that of site-4 is not signed by its key"),
        "site-4": (of_order(plan=replace(PLAN, secure_sum=SecureSum(nodes=5))), "tolerated = 1: this node requires at"),
    },
)
"""By node of one exchange: a lie, and the sentence with which it is refused."""
PLANS = {
    "site-0": (replace(PLAN, noise_source=NoiseSource.SEEDED), "noise_source = seeded: the server could subtract"),
    "site-2": (replace(PLAN, method=replace(FED_SUM, noise=Constant(0.5))), "sigma = 0.5: the least noise on what"),
    "site-3": (replace(PLAN, secure_sum=SecureSum(nodes=5)), "tolerated = 1: this node requires at least 2"),
    "site-4": (replace(PLAN, secure_sum=SecureSum(nodes=6, tolerated=2)), "secure_sum: the plan has none, or one of a"),
}
"""By node: a plan for which it gives no card, and the sentence with which it says so."""


def refuses(answers, why):
    for name, sentence in why.items():
        assert isinstance(answers[name], Refusal), (name, sentence)
        assert answers[name].reason.startswith(sentence)


def refused_plans(app):
    """Ask for cards for plans that the policy forbids; site-1, which was introduced already, gives another card."""
    asked = app.introductions()
    for name, (plan, _) in PLANS.items():
        asked[name] = replace(asked[name], about=replace(asked[name].about, plan=plan))
    asked["site-0"] = replace(asked["site-0"], about=replace(asked["site-0"].about, key=(1, 2)))
    answers = app.ask(asked)
    refuses(answers, {name: why for name, (_, why) in PLANS.items()})
    return answers["site-1"]


def random(vector):
    """Whether numbers are far larger than any sum could be."""
    return np.abs(vector.view(np.int64).astype(float)).max() > 2.0**55


def round_sum(plan=PLAN):
    return RoundSum.of(plan, T, task().params, load("synthetic").shape)


def added(told, answers):
    """Give what the server gets if it adds answers up as if all had been told the same; Spoiled if that is no sum.

    In units of C.
    """
    one, nodes = round_sum(), len(answers)
    attempt = attempt_of(next(iter(told.values())), one.size)
    same = {name: SumAnswer(attempt.digest, answer.masked) for name, answer in answers.items()}
    return collected(attempt, same, 200, one.deviation(nodes) * nodes**0.5).view(np.int64) / RESOLUTION


def plain(told, plan=PLAN):
    """Give what each node adds to a sum, in units of C: nobody but this test knows."""
    population = Population.of(PLAN, load("synthetic"))
    rows = {name: population.rows(clients_of(NAMES.index(name), 5, np.arange(10))) for name in told}
    return {
        name: round_sum(plan).added(told[name].order.params, population.x[rows[name]], population.y[rows[name]])
        for name in told
    }


def has_noise(numbers, variance):
    """Whether numbers look like noise of a variance, in units of z C; by chance they do not once in 5 million times."""
    return 1e-7 < stats.chi2.cdf(np.sum(numbers**2) / (variance * Z**2), len(numbers)) < 1 - 1e-7


def lies(app):
    """Tell one node other weights, another round, and another list of nodes: all answer, and the sum is none."""
    changes = {
        "weights": lambda told: of_order(params=(*told.order.params[:-1], told.order.params[-1] + np.float32(1))),
        "round": lambda told: of_order(t=T + 1),
        "nodes": lambda told: with_cards(lambda cards: cards[1:]),
    }
    for serial, change in enumerate(changes.values(), 10):
        told = app.told(serial)
        answers = app.ask(told | {"site-1": change(told["site-1"])(told["site-1"], app)})
        with pytest.raises(Spoiled, match="larger than honest answers"):
            added(told, answers)
        assert random(sum(answers[name].masked for name in NAMES[1:]))


def dropped_out(app, former):
    """Say that site-4 dropped out, and have its late answer all the same: two sums, each with noise of its own.

    In the exchange of the late answer the others are told that site-1 takes part, by a card that it gave once.
    """
    everyone, without = app.told(20), app.told(21, cards=app.cards[:4])
    given = app.ask({name: everyone[name] for name in NAMES[:4]})
    assert random(sum(answer.masked for answer in given.values()))
    rest = added(without, app.ask(without))
    pretended = app.ask(app.told(22, cards=former) | {"site-4": everyone["site-4"]})
    assert "this node's current one is missing" in pretended["site-1"].reason
    assert random(sum(pretended[name].masked for name in ("site-0", "site-2", "site-3")))
    whole, known = added(everyone, given | {"site-4": pretended["site-4"]}), plain(everyone)
    assert has_noise(whole - sum(known.values()), 5 / 3)
    assert has_noise(rest - sum(known[name] for name in NAMES[:4]), 4 / 2)
    assert has_noise(whole - rest - known["site-4"], 5 / 3 + 4 / 2)
    assert not has_noise(whole - sum(known.values()), 1 / 3)  # one share alone would be seen


def one_record(app, serial):
    """Give orders with weights at which all records but one overflow and count as zero, and what is left to add.

    The first feature of that record is the least of all, and the center lies above it: it becomes -1, others +1, at
    which the first logit is infinite.
    """
    told, population = app.told(serial), Population.of(PLAN, load("synthetic"))
    features = np.asarray(PLAN.model.features(task().params, population.x[population.rows(np.arange(10))], 0))
    center, whitening, last = (np.zeros_like(leaf) for leaf in told["site-0"].order.params)
    center[0], whitening[0, 0], last[0, 0], last[-1, 0] = np.sort(features[:, 0])[:2].mean(), 1.0, 3.4e38, 3.4e38
    orders = {name: of_order(params=(center, whitening, last))(order, app) for name, order in told.items()}
    (left,) = (vector for vector in plain(orders).values() if vector.any())
    assert np.linalg.norm(left) == pytest.approx(1.0)  # the whole of C
    return orders, left


def huge_bound(app):
    """Open a run of a plan whose bound is huge; give what asks for its sum."""
    other = Hostile(replace(app.engine, plan=HUGE, run=secrets.token_hex(16)), app.signer)
    other.cards = tuple(other.ask(other.introductions(T)).values())
    return other


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own, when it packs an app
def test_a_hostile_server_app_gets_refusals_or_random_numbers_or_noised_sums_from_real_nodes(hostile):
    app, here = hostile
    app.cards = former = tuple(app.ask(app.introductions()).values())
    app.cards = (former[0], refused_plans(app), *former[2:])  # site-1 has another card now
    huge = huge_bound(app)
    for serial, lie in enumerate(REFUSED):
        told = app.told(serial)
        answers = app.ask({name: tell(told[name], app) for name, (tell, _) in lie.items()})
        refuses(answers, {name: why for name, (_, why) in lie.items()})
    assert [spent(here, name) for name in NAMES] == [[]] * 5
    lies(app)
    dropped_out(app, former)
    told, left = one_record(app, 23)
    answers = app.ask(told)
    assert has_noise(added(told, answers) - left, 5 / 3)  # a sum, and no error that would tell
    everything = huge.told(0)
    assert has_noise(added(everything, huge.ask(everything)), 5 / 3)  # in units of C: what the server gets is z C
    assert np.abs(sum(plain(everything, HUGE).values())).max() < 1e-3
    assert [len(spent(here, name)) for name in NAMES] == [8, 7, 8, 8, 6]
    again = app.ask(app.told(24) | {"site-0": told["site-0"]})
    assert again["site-0"].reason == "serial = 23: must be above 23, which was asked before"
    assert (again["site-1"].masked != answers["site-1"].masked).any()
    assert "would be spent in all, and this node allows" in again["site-2"].reason
    assert [len(spent(here, name)) for name in NAMES] == [8, 8, 8, 8, 7]
    assert spent(here, "site-1") == [2, 3, 2, 2, 2, 2, 2, 2]
