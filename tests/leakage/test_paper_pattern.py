"""The pattern of the paper's resilience table on MNIST, by its attack and in its reading: who hides what where."""

from dataclasses import replace

import pytest

from gradveil.attacks.zoo import CPL
from gradveil.data.sources import load, where
from gradveil.federation.leaks import Tap
from gradveil.leakage import scenes
from gradveil.leakage.attack_run import attack
from gradveil.methods import METHODS
from gradveil.models.networks import AttackNet
from gradveil.runs.presets import resolve
from gradveil.surface import Surface

pytestmark = pytest.mark.data

HIDES = {
    "non-private": set(),
    "fed-sdp": {Surface.SERVER},
    "fed-sdp-client": {Surface.SERVER, Surface.UPDATE},
    "fed-cdp": set(Surface),
    "fed-alpha-cdp": set(Surface),
}
SMALL = replace(CPL, iterations=6)  # an open gradient is rebuilt after four


@pytest.fixture(scope="module")
def mnist():
    if where("mnist") is None:
        pytest.skip("mnist is neither in GRADVEIL_DATA nor in the cache")
    return load("mnist", allow_download=False)


def scene(mnist, method, surface, view="released"):
    plan = resolve("mnist", mnist, METHODS[method].value, {"model": AttackNet(), "clients": 20, "cohort": 5})
    # One example at every surface: then all of them share one compiled attack.
    plan = scenes.as_paper(plan, surface, batch=1, local_steps=1)
    return scenes.fresh(plan, mnist, Tap(surface, view, surface is Surface.EXAMPLE))


@pytest.mark.slow
@pytest.mark.parametrize("method", HIDES)
def test_a_method_hides_gradients_where_the_paper_says_and_nowhere_else(mnist, method):
    found = {s: attack(scene(mnist, method, s), SMALL, victims=1, identify=False).record for s in Surface}
    open_to_attack = {s for s, record in found.items() if record.success_rate == 1}
    assert open_to_attack == set(Surface) - HIDES[method]
    for surface in HIDES[method]:
        assert found[surface].success_rate == 0
        assert found[surface].gain < 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "surface", "view"), [("fed-sdp", Surface.SERVER, "arriving"), ("fed-cdp", Surface.EXAMPLE, "in_memory")]
)
def test_the_harsher_view_is_open_where_the_papers_reading_is_not(mnist, method, surface, view):
    assert attack(scene(mnist, method, surface, view), SMALL, victims=1, identify=False).record.success_rate == 1
