"""How epsilon grew: curves that end where the guarantee stands, and never fall."""

from dataclasses import fields

import numpy as np
import pytest

from gradveil import codec
from gradveil.data.sampling import CohortSampling, Poisson
from gradveil.data.sources import load
from gradveil.federation.plan import Plan
from gradveil.methods import METHODS
from gradveil.models.networks import Mlp
from gradveil.runs.budget import Budget
from gradveil.runs.epsilon_curve import epsilon_curves
from gradveil.runs.run_records import RoundLine

ROUNDS = 12


def line(t, sigma):
    nothing = dict.fromkeys(field.name for field in fields(RoundLine))
    return RoundLine(**nothing | {"round": t, "sigma": sigma, "max_participations": t // 2 + 1})


def told(plan, budget):
    """Account a run in which the busiest client takes part in every second round."""
    lines = [line(t, float(plan.sigmas()[t].mean())) for t in range(plan.rounds)]
    held = budget.all_guarantees(plan.rounds, lines[-1].max_participations)
    return lines, held, epsilon_curves(budget, lines, held)


@pytest.fixture
def made():
    def make(name, **changes):
        plan = Plan(
            dataset="synthetic", method=METHODS[name].value, clients=8, cohort=4, rounds=ROUNDS, local_steps=2, batch=2,
            client_size=10, learning_rate=0.1, model=Mlp((4,)), sampling=Poisson(), **changes,
        )  # fmt: skip
        return plan, Budget(plan, load("synthetic"), 1)

    return make


@pytest.mark.parametrize("cohorts", CohortSampling)
@pytest.mark.parametrize("name", ["fed-cdp", "fed-sdp", "fed-sdp-client"])
def test_curves_rise_to_the_guarantee_and_hold_what_each_round_had_spent(made, name, cohorts):
    plan, budget = made(name, cohort_sampling=cohorts)
    lines, held, curves = told(plan, budget)
    assert [c.threat_model for c in curves.sound] == [g.threat_model for g in held if g.finite]
    assert curves.sound
    for curve, end in zip(curves.sound, [g for g in held if g.finite], strict=True):
        assert curve.rounds == (1, 3, 6, ROUNDS)
        assert curve.epsilon[-1] == end.epsilon
        assert (np.diff(curve.epsilon) >= 0).all()
        at = budget.all_guarantees(6, lines[5].max_participations)
        again = next(g.epsilon for g in at if g.threat_model == curve.threat_model)
        assert curve.epsilon[2] == again
    paper = curves.as_the_paper_accounts
    assert paper.rounds == (1, 3, 6, ROUNDS)
    assert paper.moments[-1] == budget.as_the_paper_accounts(ROUNDS).moments
    assert all((np.diff(getattr(paper, key)) > 0).all() for key in ("moments", "base", "zcdp"))


def test_a_method_without_a_guarantee_has_no_sound_curve(made):
    plan, budget = made("fed-alpha-cdp")
    *_, curves = told(plan, budget)
    assert curves.sound == ()
    assert len(curves.as_the_paper_accounts.moments) == 4


def test_a_run_of_no_rounds_has_no_curve(made):
    _, budget = made("non-private")
    assert codec.record(epsilon_curves(budget, [], [])) == {"sound": [], "as_the_paper_accounts": {"rounds": []}}
