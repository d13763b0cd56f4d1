"""The adapters of examples/: what they release is the library's, and its public bugs are refuted.

jax_privacy and Opacus are not installed beside gradveil; `make audit-peers` runs these tests where they are.
"""

import importlib

import numpy as np
import pytest

from gradveil.auditing.outside import Outside, audit_outside

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries
PACKAGES = {"audit_flower": "flwr", "audit_jax_privacy": "jax_privacy", "audit_opacus": "opacus"}


def adapter(name):
    module, function = name.split(":")
    pytest.importorskip(PACKAGES[module])
    return getattr(importlib.import_module(f"examples.{module}"), function)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("audit_flower:fixed_clipping", 1 / 16),
        ("audit_jax_privacy:release", 1.0),
        ("audit_opacus:expected_lot", 1 / 16),
    ],
)
def test_with_one_seed_a_unit_moves_the_release_by_what_clipping_leaves_of_it(name, share):
    release = adapter(name)
    units = np.random.default_rng(0).normal(size=(16, 6))
    units[-1] *= 3 / np.linalg.norm(units[-1])
    moved = release(units, 5) - release(units[:-1], 5)
    assert moved == pytest.approx(share * units[-1] / 3, abs=1e-5)
    assert np.abs(release(units, 5) - release(units, 6)).max() > 0.01 * share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "claimed", "verdict"),
    [
        ("audit_flower:fixed_clipping", 1.0, "consistent"),
        ("audit_flower:adaptive_clipping", 1.0, "refuted"),
        ("audit_jax_privacy:release", 1.0, "consistent"),
        ("audit_jax_privacy:rebuilt_each_round", 0.70710678, "refuted"),
        ("audit_opacus:expected_lot", 1.0, "consistent"),
        ("audit_opacus:lot_of_the_data", 1.0, "refuted"),
    ],
)
def test_a_library_is_consistent_where_it_is_sound_and_refuted_where_it_is_not(name, claimed, verdict):
    outside = Outside(name=name, mechanism=adapter(name), noise_multiplier=claimed, releases=1200, dimension=8)
    record = audit_outside(outside)
    assert record.verdict == verdict, record.rows
