"""Seeded runs of every method give what was recorded: guarantees everywhere, bits on the machine that recorded them.

`make golden` checks all datasets, both engines and the attacks; here is what a change is likely to break first.
"""

import json

import pytest
from record_runs import FILE, machine, recorded

from gradveil.methods import METHODS

FEW = 5
"""Test examples that another processor or version of JAX may put into another class."""


@pytest.fixture(scope="module")
def record():
    return json.loads(FILE.read_text())


def differences(then, now, same_machine):
    """Give the names of what is not as it was recorded."""
    exact = ["guarantees", "as_the_paper_accounts", "test_examples", *(["params_sha256"] if same_machine else [])]
    changed = [key for key in exact if then[key] != now[key]]
    other = abs(then["accuracy"] - now["accuracy"]) * then["test_examples"]
    return changed + ["accuracy"] * (other > (1e-3 if same_machine else FEW + 1e-3))


@pytest.mark.parametrize("method", METHODS)
def test_a_seeded_run_gives_what_was_recorded(record, method):
    name, now = recorded(("digits", method, "vectorized"), attack=False)
    assert now["guarantees"]
    assert differences(record["runs"][name], json.loads(json.dumps(now)), record["machine"] == machine()) == []


def test_every_method_was_recorded_on_every_dataset_with_both_engines(record):
    names = {tuple(name.split("/")) for name in record["runs"]}
    engines, datasets = ("serial", "vectorized"), ("digits", "cancer", "mnist")
    assert names == {(dataset, method, engine) for dataset in datasets for method in METHODS for engine in engines}


RUN = {
    "params_sha256": "ab", "accuracy": 0.5, "test_examples": 100, "guarantees": [{"epsilon": 1.0}],
    "as_the_paper_accounts": {"epsilon": 1.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "here", "elsewhere"),
    [
        ({}, [], []),
        ({"guarantees": [{"epsilon": 1.0000000001}]}, ["guarantees"], ["guarantees"]),
        ({"guarantees": []}, ["guarantees"], ["guarantees"]),
        ({"as_the_paper_accounts": None}, ["as_the_paper_accounts"], ["as_the_paper_accounts"]),
        ({"params_sha256": "cd"}, ["params_sha256"], []),
        ({"accuracy": 0.45}, ["accuracy"], []),
        ({"accuracy": 0.44}, ["accuracy"], ["accuracy"]),
    ],
)
def test_what_changed_is_named_bits_only_where_they_must_agree(changes, here, elsewhere):
    assert differences(RUN, RUN | changes, same_machine=True) == here
    assert differences(RUN, RUN | changes, same_machine=False) == elsewhere
