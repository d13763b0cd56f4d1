"""Bugs planted into the code that trains, or that accounts for it: `audit` must refute each, at its usual effort.

docs/audit.md lists them all, each with its test; the last tests of this file hold the list.
"""

import ast
import re
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import pytest

import gradveil
from gradveil import keys, tree
from gradveil.auditing import audits
from gradveil.auditing.subject import subject_of
from gradveil.data.sampling import BatchIndices, Poisson
from gradveil.federation import client, server
from gradveil.federation import ledger as translator
from gradveil.methods import FED_CDP, FED_SDP, FED_SDP_CLIENT, QUANTILE
from gradveil.privacy import sanitize
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.schedule import Constant, Exponential
from gradveil.privacy.sensitivity import Fixed, L2Max
from gradveil.privacy.slack import Slack

CROSS = sanitize.cross
RELEASES = translator.releases
CROSSED = server.crossed
UPDATE_OF_C = Quantile.update
SLOTS_OF = sanitize.slots_of


def noise_divided_by_b_twice(surface, method, lot, mask, expected, sigma, state, key):
    return CROSS(surface, method, lot, mask, expected, sigma / expected, state, key)


def clip_after_the_mean(surface, method, lot, mask, expected, sigma, state, key):
    weights = jnp.broadcast_to(mask[:, None] / expected, tree.layer_norms(lot).shape)
    mean = tree.lot_of_one(tree.weighted_sum(weights, lot))
    return CROSS(surface, method, mean, jnp.ones(1), 1, sigma / expected, state, key)


def noise_on_the_first_layer_only(surface, method, lot, mask, expected, sigma, state, key):
    loud = CROSS(surface, method, lot, mask, expected, sigma, state, key)
    quiet = CROSS(surface, method, lot, mask, expected, 0 * sigma, state, key)
    return loud._replace(used=(loud.used[0], *quiet.used[1:]))


def mask_ignored(surface, method, lot, mask, expected, sigma, state, key):
    return CROSS(surface, method, lot, jnp.ones_like(mask), expected, sigma, state, key)


def data_dependent_s(surface, method, lot, mask, expected, sigma, state, key):
    return CROSS(surface, method._replace(sensitivity=L2Max()), lot, mask, expected, sigma, state, key)


def first_c_in_the_noise(surface, method, lot, mask, expected, sigma, state, key):
    return CROSS(surface, method._replace(sensitivity=Fixed(1.0)), lot, mask, expected, sigma, state, key)


def divided_by_the_realized_count(surface, method, lot, mask, expected, sigma, state, key):
    count = jnp.maximum(jnp.sum(mask), 1.0)
    found = CROSS(surface, method, lot, mask, expected, 0 * sigma, state, key)
    loud = CROSS(surface, method, lot, mask, expected, sigma, state, key)
    used = tree.add_scaled(loud.used, found.used, expected / count - 1)
    return loud._replace(used=used)


def crossing(bug):
    def plant(monkeypatch):
        for module in (sanitize, client):
            monkeypatch.setattr(module, "cross", bug)

    return plant


def forgotten_root_of_m(monkeypatch):
    monkeypatch.setattr(translator, "releases", lambda *a: tuple(replace(r, layers=1) for r in RELEASES(*a)))


def key_reused_each_step(monkeypatch):
    monkeypatch.setattr(client, "_noise_key", lambda task, data, index: keys.of_words(0, 7))


def shares_too_small_by_the_cohort(monkeypatch):
    monkeypatch.setattr(client, "_share", lambda spec, sigma: sigma / spec.honest)


def fixed_pass_accounted_as_poisson(monkeypatch):
    def pick(self, key, step, size, batch):
        return BatchIndices(jnp.arange(self.capacities(size, batch)[-1]), jnp.asarray(batch))

    monkeypatch.setattr(Poisson, "pick", pick)


def nan_passes_the_clip(monkeypatch):
    def clipped(method, norms, mask, state):
        scales = method.clip.scales(norms, state) * mask[:, None]
        return sanitize._Clipped(norms, scales, scales)

    monkeypatch.setattr(sanitize, "_clipped", clipped)


def preparation_uncounted(monkeypatch):
    def counted(plan, t, *rest):
        return () if plan.stage(t) is not None else RELEASES(plan, t, *rest)

    monkeypatch.setattr(translator, "releases", counted)


def server_key_reused_each_round(monkeypatch):
    def crossed(spec, task, updates, mask):
        return CROSSED(spec, task._replace(key=keys.of_words(0, 7)), updates, mask)

    monkeypatch.setattr(server, "crossed", crossed)


def slots_of_clipped_units(monkeypatch):
    monkeypatch.setattr(sanitize, "slots_of", lambda clip, norms, state: SLOTS_OF(clip, jnp.zeros_like(norms), state))


def half_of_the_counts_noise(monkeypatch):
    def quiet(self, state, summed, expected, key):
        still = state * jnp.exp(-self.eta * (summed / expected + 0.5 - self.gamma))
        return jnp.sqrt(still * UPDATE_OF_C(self, state, summed, expected, key))  # half of the noise on ln C

    monkeypatch.setattr(Quantile, "update", quiet)


ALL = {"batch": 8}
"""Every batch holds all records of a client: half as much to compile, for bugs that need no draw of batches."""
SMALL = replace(FED_CDP, name="small", clip=Flat(1.0), noise=Constant(2.0))
SHARED = replace(FED_SDP_CLIENT, name="shared", clip=Flat(1.0), noise=Constant(2.0), share=True)
LEARNING = replace(QUANTILE, name="learning", clip=Quantile(1.0, eta=1.0), noise=Constant(2.0))
CLIENTS = replace(FED_SDP, name="clients", clip=Flat(1.0), noise=Constant(2.0))
CLIENT_SLOTS = replace(CLIENTS, name="client slots", clip=Slack(1.0))
OWN_SLOTS = replace(CLIENT_SLOTS, name="own slots", surface=FED_SDP_CLIENT.surface)
CLIENT_COUNT = replace(CLIENTS, name="client count", clip=Quantile(1.0, eta=1.0, count_noise=1.0))
OWN_COUNT = replace(CLIENT_COUNT, name="own count", surface=FED_SDP_CLIENT.surface)
BUGS = {
    "noise divided by B twice": (crossing(noise_divided_by_b_twice), SMALL, ALL),
    "clip after the mean": (crossing(clip_after_the_mean), SMALL, ALL),
    "noise on the first layer only": (crossing(noise_on_the_first_layer_only), SMALL, ALL),
    "forgotten sqrt(M)": (forgotten_root_of_m, replace(SMALL, clip=PerLayer(1.0)), ALL),
    "key reused each step": (key_reused_each_step, SMALL, ALL),
    "mask ignored": (crossing(mask_ignored), SMALL, {}),
    "the first C in the noise": (crossing(first_c_in_the_noise), LEARNING, {"rounds": 6} | ALL),
    "shares too small by the cohort": (shares_too_small_by_the_cohort, SHARED, {"cohort": 4, "clients": 4}),
    "amplification of a fixed pass": (fixed_pass_accounted_as_poisson, SMALL, {}),
    "data-dependent S": (crossing(data_dependent_s), SMALL, ALL),
    "NaN passes the clip": (nan_passes_the_clip, SMALL, ALL),
    "divided by the realized count": (crossing(divided_by_the_realized_count), SMALL, {}),
    "the server's key reused each round": (server_key_reused_each_round, CLIENTS, ALL),
    "slots of clipped units, clients": (slots_of_clipped_units, OWN_SLOTS, ALL),
    "slots of clipped units, server": (slots_of_clipped_units, CLIENT_SLOTS, ALL),
    "half of the noise of a count of clients": (half_of_the_counts_noise, CLIENT_COUNT, ALL),
}


@pytest.fixture(autouse=True)
def of_today():
    """Let the server be compiled anew before and after: its program is kept for all audits of a process."""
    server.aggregate.clear_cache()
    yield
    server.aggregate.clear_cache()


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_refuted(bug, audited, monkeypatch):
    plant, method, changes = BUGS[bug]
    plant(monkeypatch)
    record = audited(method, **changes)
    assert record.verdict == "refuted", [(r.threat_model, r.claimed, r.lower_bound) for r in record.rows]


@pytest.mark.slow
def test_a_preparation_that_is_not_counted_is_refuted(monkeypatch, digits):
    preparation_uncounted(monkeypatch)
    record = audits.audit(subject_of(gradveil.plan("digits", "fed-sum"), digits, "fed-sum"), ("replay",))
    assert record.verdict == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "least"),
    [
        (SMALL, 0.75),
        (replace(SMALL, clip=PerLayer(1.0)), 0.75),
        (SHARED, 0.75),
        (LEARNING, 0.7),
        (CLIENT_SLOTS, 0.75),
        (OWN_SLOTS, 0.75),
        (CLIENT_COUNT, 0.75),
        (OWN_COUNT, 0.75),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_same_plans_without_a_bug_are_not_refuted_and_measured_closely(method, least, audited):
    record = audited(method)
    assert record.verdict == "consistent"
    finite = [row for row in record.rows if row.claimed is not None]
    assert max(row.lower_bound / row.claimed for row in finite) > least


@pytest.mark.slow
def test_a_count_whose_noise_stays_while_sigma_decays_is_not_refuted(audited):
    decaying = replace(LEARNING, name="decaying", noise=Exponential(start=8.0, end=2.0))
    assert audited(decaying, rounds=6, **ALL).verdict == "consistent"


@pytest.mark.slow
@pytest.mark.parametrize("method", [CLIENT_SLOTS, OWN_SLOTS, CLIENT_COUNT], ids=lambda method: method.name)
def test_an_update_of_zeros_is_not_an_absent_client(method, audited, monkeypatch):
    # zeros fill every slot and are counted as within C, so that they would refute what is true
    monkeypatch.setattr("gradveil.auditing.views._there", lambda spec, gone, surface: jnp.ones(()))
    assert audited(method, **ALL).verdict == "refuted"


TESTS = Path(__file__).parent
PAGE = TESTS.parents[1] / "docs" / "audit.md"


def listed(text):
    """Give (bug, file, test) of every line of the list of planted bugs."""
    _, _, table = text.partition("<!-- planted bugs -->")
    return re.findall(r"^\| (.+?) \| `(\w+\.py)::(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE)


def names_of_tests(file):
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_the_page_lists_every_planted_bug_with_a_test_that_is_there():
    lines = listed(PAGE.read_text())
    own = "test_planted_bugs.py", test_a_planted_bug_is_refuted.__name__
    assert {bug for bug, *test in lines if tuple(test) == own} == set(BUGS)
    assert len({bug for bug, _, _ in lines}) == len(lines) >= 12
    assert [(file, test) for _, file, test in lines if test not in names_of_tests(TESTS / file)] == []


def test_a_line_of_another_table_is_no_planted_bug():
    line = "| noise | `test_a.py::test_b` |\n"
    assert listed(f"{line}\n<!-- planted bugs -->\n| bug | test |\n|---|---|\n{line}\n{line}") == [
        ("noise", "test_a.py", "test_b")
    ]
