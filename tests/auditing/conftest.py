"""A small plan to audit: two clients of eight records, one hidden layer, three rounds."""

import pytest

import gradveil
from gradveil.auditing import audits
from gradveil.auditing.subject import subject_of
from gradveil.models.networks import Mlp


@pytest.fixture(scope="session")
def digits():
    return gradveil.dataset("digits")


@pytest.fixture
def audited(digits):
    """Audit a method on the small plan, with changes of the plan."""

    def run(method, levels=("replay",), seed=0, effort=audits.USUAL_EFFORT, **changes):
        sizes = {"clients": 2, "cohort": 2, "client_size": 8, "batch": 4, "rounds": 3, "model": Mlp(hidden=(4,))}
        plan = gradveil.plan("digits", method, **(sizes | changes))
        return audits.audit(subject_of(plan, digits, plan.method.name), levels, seed, effort)

    return run
