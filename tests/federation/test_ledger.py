"""The ledger of a plan: what each method releases in a round, in the accountants' terms."""

import math
from dataclasses import replace

import jax.numpy as jnp
import pytest

from gradveil.accounting.accountant import account
from gradveil.accounting.participation import batches
from gradveil.accounting.release import Ledger
from gradveil.accounting.threats import THREATS
from gradveil.data.sampling import Allocation, CohortSampling, FixedPass, Poisson, WithReplacement
from gradveil.federation.ledger import layer_count, releases
from gradveil.federation.plan import Plan
from gradveil.methods import FED_CDP, FED_SDP, FED_SDP_CLIENT, METHODS, QUANTILE
from gradveil.models.networks import Cnn, Mlp
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Flat, NormStats
from gradveil.privacy.draw import Draw
from gradveil.privacy.schedule import Exponential, Linear, Per
from gradveil.privacy.sensitivity import Fixed, L2MaxOfMean

LAYERS = 3


def plan(method, **changes):
    sizes = {"clients": 1000, "cohort": 100, "rounds": 4, "local_steps": 100, "batch": 5, "client_size": 500}
    return Plan(**({"dataset": "mnist", "method": method, "learning_rate": 0.05} | sizes | changes))


def first(method, t=0, copies=1, **changes):
    return releases(plan(method, **changes), t, LAYERS, copies)[0]


INF = math.inf
EXPECTED = {
    # name: unit, surface, ratio, layers, number of sigmas, z, data dependent
    "non-private": ("example", 2, INF, 1, 100, 0.0, False),
    "fed-sdp": ("client", 0, 1.0, 3, 1, 6 / math.sqrt(3), False),
    "fed-sdp-client": ("client", 1, 1.0, 3, 1, 6 / math.sqrt(3), False),
    "fed-cdp": ("example", 2, 1.0, 3, 100, 6 / math.sqrt(3), False),
    "fed-alpha-cdp": ("example", 2, 0.0, 3, 100, 0.0, True),
    "fed-alpha-cdp-sigma": ("example", 2, 0.0, 3, 100, 0.0, True),
    "quantile": ("example", 2, 1.0, 1, 100, 6.0, False),
    "adaclip": ("example", 2, 1.0, 1, 100, 6.0, False),
    "fed-slack": ("example", 2, 1.0, 1, 100, 6.0, False),
    "fed-sum": ("example", 2, 1.0, 1, 100, 17.0, False),
    "dssgd": ("client", 1, INF, 1, 1, 0.0, False),
    "pruning": ("client", 1, INF, 1, 1, 0.0, False),
    "random-noise": ("client", 1, INF, 1, 1, 0.0, False),
    "fed-alpha-cdp-as-coded": ("example", 2, 0.0, 3, 100, 0.0, True),
    "dssgd-noisy": ("client", 1, 1.0, 3, 1, 6 / math.sqrt(3), False),
}


def test_every_method_is_expected_here():
    assert set(EXPECTED) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_releases_what_it_says(name):
    unit, surface, ratio, layers, steps, z, data_dependent = EXPECTED[name]
    found = first(METHODS[name].value)
    assert (found.unit, found.surface, found.part, found.round) == (unit, surface, "sum", 0)
    assert (found.ratio, found.layers, found.data_dependent) == (ratio, layers, data_dependent)
    assert len(found.sigmas) == steps
    assert found.noise_multipliers == (pytest.approx(z),) * steps


@pytest.mark.parametrize("name", METHODS)
def test_only_sound_methods_have_a_finite_guarantee_and_only_against_whom_they_noise(name):
    setting = plan(METHODS[name].value, clients=100, rounds=2, local_steps=3)
    held = Ledger(tuple(r for t in range(2) for r in releases(setting, t, LAYERS, 1)), 2)
    finite = {threat for threat in THREATS if account(held, 1e-5, "add-remove", threat).finite}
    inside = {"aggregate", "alone", "server", "type2-secret", "type2-known", "client-server", "client-central"}
    central = {"central", "central-visible"}
    expected = {
        "fed-sdp": central | {"client-central"},
        "fed-sdp-client": central | {"client-central", "aggregate", "alone", "server", "client-server"},
        "dssgd-noisy": central | {"client-central", "aggregate", "alone", "server", "client-server"},
        "fed-cdp": central | inside,
        "adaclip": central | inside,
        "fed-slack": central | inside,
        "fed-sum": central | inside,
        "quantile": central,
    }
    assert finite == expected.get(name, set())


def test_the_papers_network_has_three_layers_and_a_flat_clip_makes_them_one():
    setting = plan(FED_CDP)
    assert layer_count(setting, (28, 28, 1), 10) == 3
    assert layer_count(replace(setting, model=Mlp(hidden=(7, 5))), (9,), 2) >= 3
    assert replace(setting).model == Cnn()
    flat = first(replace(FED_CDP, name="flat", clip=Flat(4.0)))
    assert (flat.layers, flat.noise_multipliers[0]) == (1, 6.0)


@pytest.mark.parametrize(
    ("draw", "example", "server"), [(Draw.SUM, 6, 6), (Draw.EACH, 6 * math.sqrt(5), 60), (Draw.MEAN, 30, 600)]
)
def test_the_draw_decides_the_noise_on_the_sum(draw, example, server):
    flat = {"clip": Flat(4.0), "draw": draw}
    assert first(replace(FED_CDP, **flat)).noise_multipliers[0] == pytest.approx(example)
    assert first(replace(FED_SDP, **flat)).noise_multipliers[0] == pytest.approx(server)
    assert first(replace(FED_SDP_CLIENT, **flat)).noise_multipliers[0] == pytest.approx(6)


def test_a_shared_noise_leaves_each_update_a_root_of_k_less():
    shared = first(replace(FED_SDP_CLIENT, clip=Flat(4.0), share=True))
    assert (shared.share, shared.noise_multipliers[0]) == (True, pytest.approx(0.6))


@pytest.mark.parametrize(("clip", "ratio"), [(Flat(4.0), 2.0), (AdaClip(radius=3.0), 1.5)])
def test_a_fixed_sensitivity_below_the_bound_costs_multiplier(clip, ratio):
    found = first(replace(FED_CDP, clip=clip, sensitivity=Fixed(2.0)))
    assert (found.ratio, found.noise_multipliers[0]) == (ratio, pytest.approx(6 / ratio))


def test_every_reading_of_l2_max_is_data_dependent():
    found = first(replace(FED_CDP, sensitivity=L2MaxOfMean()))
    assert (found.data_dependent, found.ratio) == (True, 0.0)


@pytest.mark.parametrize(
    ("steps", "batch", "size", "touches"), [(100, 5, 500, 1), (101, 5, 500, 2), (50, 5, 500, 1), (7, 3, 7, 3)]
)
def test_a_fixed_pass_touches_a_record_as_often_as_it_passes_by(steps, batch, size, touches):
    found = first(FED_CDP, local_steps=steps, batch=batch, client_size=size)
    counted = [0] * size
    for step in range(steps):
        for position in FixedPass().pick(None, jnp.asarray(step), size, batch).positions.tolist():
            counted[position] += 1
    assert found.touches == touches == max(counted)


@pytest.mark.parametrize("sampling", [Poisson(), WithReplacement()])
def test_random_batches_may_touch_a_record_in_every_step(sampling):
    found = first(FED_CDP, sampling=sampling)
    assert (found.touches, found.example_sampling, found.example_rate) == (100, sampling.name, 0.01)
    assert found.capacity == sampling.capacities(500, 5)[-1]
    assert found.expected == 5


@pytest.mark.parametrize(("steps", "batch", "size", "passes"), [(100, 5, 500, 1), (101, 5, 500, 2), (7, 3, 7, 3)])
def test_allocation_touches_a_record_once_a_pass_and_the_accountant_counts_the_same_batches(steps, batch, size, passes):
    found = first(FED_CDP, sampling=Allocation(), local_steps=steps, batch=batch, client_size=size)
    assert (found.touches, found.example_sampling) == (passes, "allocation")
    assert found.capacity == Allocation().capacities(size, batch)[-1]
    accounted = batches(found)
    assert sum(step.times for step in accounted) == passes
    assert sum(step.times * step.lots for step in accounted) == steps
    assert {step.q for step in accounted} == {1 / Allocation().period(size, batch)}


@pytest.mark.parametrize("cohorts", CohortSampling)
def test_the_cohort_and_the_copies_are_recorded(cohorts):
    found = first(FED_CDP, copies=10, cohort_sampling=cohorts)
    assert (found.cohort, found.cohort_rate, found.cohort_sampling) == (100, 0.1, cohorts.value)
    assert found.copies == 10


def test_a_decay_is_recorded_step_by_step_for_examples_and_by_its_first_step_for_clients():
    noise = Linear(start=8.0, end=4.0, per=Per.STEP)
    setting = plan(replace(FED_CDP, noise=noise), rounds=2, local_steps=4)
    assert [releases(setting, t, 3, 1)[0].sigmas for t in (0, 1)] == [(8.0, 7.5, 7.0, 6.5), (6.0, 5.5, 5.0, 4.5)]
    clients = plan(replace(FED_SDP, noise=noise), rounds=2, local_steps=4)
    assert [releases(clients, t, 3, 1)[0].sigmas for t in (0, 1)] == [(8.0,), (6.0,)]
    by_round = first(replace(FED_CDP, noise=Exponential(start=15.0, end=4.85)), t=3)
    assert by_round.round == 3
    assert by_round.sigmas == (pytest.approx(15 * (4.85 / 15) ** 0.75),) * 100


@pytest.mark.parametrize("name", [n for n in METHODS if n != "quantile"])
def test_only_a_quantile_releases_a_count(name):
    assert len(releases(plan(METHODS[name].value), 0, LAYERS, 1)) == 1


@pytest.mark.parametrize(
    ("base", "units"), [(FED_CDP, 500), (FED_SDP, 100), (FED_SDP_CLIENT, 100)], ids=["example", "server", "update"]
)
def test_a_quantile_releases_one_count_a_round_with_noise_in_proportion_to_the_units(base, units):
    counts = [
        releases(plan(replace(base, clip=Quantile(4.0, count_noise=noise))), 2, LAYERS, 3)[1] for noise in (0.05, 0.1)
    ]
    for count in counts:
        assert (count.part, count.round, count.surface, count.layers, count.touches) == ("count", 2, 0, 1, 1)
        assert (count.draw, count.share, count.ratio, count.copies) == ("sum", False, 1.0, 3)
        assert not count.data_dependent
        assert count.noise_multipliers == count.sigmas
    assert counts[1].sigmas[0] == 2 * counts[0].sigmas[0]
    assert 0.05 * units <= counts[0].sigmas[0] <= 2 * 0.05 * units
    main = releases(plan(replace(base, clip=Quantile(4.0))), 2, LAYERS, 3)[0]
    assert count.unit == main.unit


def test_the_counts_multiplier_is_its_noise_over_the_most_that_leaving_a_unit_out_changes_it():
    clip = QUANTILE.clip
    facts = NormStats(before=jnp.array([[1.0], [2.0]]), after=jnp.zeros((2, 1)), of_mean=jnp.zeros(1), mask=jnp.ones(2))
    clip_state = clip.init(())
    with_unit, without = (
        float(clip.statistics(facts._replace(mask=m), (), 0.0, clip_state)) for m in (jnp.ones(2), jnp.eye(2)[0])
    )
    noise = clip.count_noise * 500
    assert releases(plan(QUANTILE), 0, LAYERS, 1)[1].noise_multipliers[0] <= noise / abs(with_unit - without)
