"""The sound epsilon of the paper's whole plans: accounted without training, as a run of the plan would be."""

from dataclasses import replace

import pytest
from gradveil.reproduction.metrics import measured

from gradveil.accounting.threats import account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.data.sources import load
from gradveil.federation.plan import Plan
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP
from gradveil.models.networks import Mlp
from gradveil.reproduction.job_cache import Shelf
from gradveil.reproduction.works import Sound
from gradveil.reproduction.workshop import Workshop
from gradveil.runs.budget import Budget

PLAN = Plan(
    dataset="synthetic", method=FED_CDP, clients=4, cohort=4, rounds=3, local_steps=5, batch=4, client_size=20,
    learning_rate=0.1, model=Mlp((4,)),
)  # fmt: skip


@pytest.fixture
def answer(tmp_path):
    shelf = Shelf(tmp_path)
    shelf.open()
    workshop = Workshop(shelf, load)
    return lambda plan: measured("sound epsilon", [workshop.do(Sound(plan))])


def test_it_is_what_the_accountant_gives_for_all_rounds(answer):
    given = answer(PLAN)
    data = load("synthetic")
    expected = account(Budget(PLAN, data, 1).ledger(3, 3), PLAN.delta, ADD_REMOVE, "server")
    assert given.value == pytest.approx(expected.epsilon)
    assert "one example against server" in given.guarantee


def test_fed_sdp_is_held_against_those_who_see_the_models_and_l2_max_against_nobody(answer):
    assert "one client against client-central" in answer(replace(PLAN, method=FED_SDP)).guarantee
    none = answer(replace(PLAN, method=FED_ALPHA_CDP))
    assert none.value == "none"
    assert "no finite epsilon" in none.guarantee
