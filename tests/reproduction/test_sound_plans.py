"""The sound epsilon of the paper's whole plans: accounted without training, as a run of the plan would be."""

from dataclasses import replace

import pytest

from gradveil.accounting.accountant import account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.data.sources import load
from gradveil.federation.plan import Plan
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP
from gradveil.models.networks import Mlp
from gradveil.reproduction.executor import Executor
from gradveil.reproduction.job_cache import JobCache
from gradveil.reproduction.jobs import GuaranteeJob
from gradveil.reproduction.measures import measured
from gradveil.runs.budget import Budget

PLAN = Plan(
    dataset="synthetic", method=FED_CDP, clients=4, cohort=4, rounds=3, local_steps=5, batch=4, client_size=20,
    learning_rate=0.1, model=Mlp((4,)),
)  # fmt: skip


@pytest.fixture
def epsilon_of(tmp_path):
    cache = JobCache(tmp_path)
    cache.open()
    executor = Executor(cache, load)
    return lambda plan: measured("sound epsilon", [executor.run(GuaranteeJob(plan))])


def test_it_is_what_the_accountant_gives_for_all_rounds(epsilon_of):
    ours = epsilon_of(PLAN)
    data = load("synthetic")
    expected = account(Budget(PLAN, data, 1).ledger(3, 3), PLAN.delta, ADD_REMOVE, "server")
    assert ours.value == pytest.approx(expected.epsilon)
    assert "one example against server" in ours.guarantee


def test_fed_sdp_is_held_against_those_who_see_the_models_and_l2_max_against_nobody(epsilon_of):
    assert "one client against client-central" in epsilon_of(replace(PLAN, method=FED_SDP)).guarantee
    none = epsilon_of(replace(PLAN, method=FED_ALPHA_CDP))
    assert none.value == "none"
    assert "no finite epsilon" in none.guarantee
