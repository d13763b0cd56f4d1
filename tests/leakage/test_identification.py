"""How much is tried to tell records apart: all places of small batches, and of no batch nothing."""

import json

import numpy as np
import pytest

from gradveil.cli.main import main
from gradveil.leakage.identification import places_tried

PAPER, ADULT = 17_038, 123_200
"""Parameters of the attack network on MNIST, and of Adult's network."""


@pytest.mark.parametrize("examples", [1, 3, 8])
def test_every_place_of_a_small_batch_is_tried_among_ten_a_hundred_and_a_thousand(examples):
    assert places_tried(examples, PAPER, 5000) == dict.fromkeys((10, 100, 1000), examples)


@pytest.mark.parametrize(
    ("examples", "size", "public", "tried"),
    [
        (15, PAPER, 5000, {10: 15, 100: 15, 1000: 4}),  # 4 x 1000 x 15 = 60,000 examples
        (3, 10**6, 5000, {10: 3, 100: 3, 1000: 3}),
        (8, ADULT, 5000, {10: 8, 100: 8, 1000: 1}),
        (8, PAPER, 500, {10: 8, 100: 8}),
        (100, PAPER, 5000, {10: 64, 100: 6}),
        (600, PAPER, 5000, {10: 10, 100: 1}),
        (100_000, 10**6, 5000, {10: 1}),  # never nothing, however large the batch is
        (1, PAPER, 8, {}),  # nine others are needed
    ],
)
def test_of_larger_ones_as_many_as_are_worth_the_time_but_at_least_one(examples, size, public, tried):
    assert places_tried(examples, size, public) == tried


@pytest.fixture
def own(tmp_path):
    random = np.random.default_rng(0)
    x, y = random.uniform(size=(2400, 4, 4, 1)).astype(np.float32), (np.arange(2400) % 3).astype(np.int64)
    np.savez(tmp_path / "own.npz", x=x, y=y)
    return tmp_path


@pytest.mark.slow
def test_of_a_sum_over_many_examples_one_record_is_still_told_from_others(own, capsys):
    where = [
        "--dataset",
        str(own / "own.npz"),
        "--out",
        str(own / "out"),
        "--network",
        "mlp",
        "--method",
        "non-private",
    ]
    read = ["--surface", "0", "--view", "aggregate", "--cohort", "6", "--batch", "85"]
    assert main(["attack", *where, *read, "--attack", "exact", "--victims", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["batch"] == 510
    assert [(one["n"], one["trials"], one["success"]) for one in answer["candidates"]] == [(10, 12, 1), (100, 1, 1)]
    assert answer["verdict"] == "leaks"  # the rows are not rebuilt, but whoever knows the others tells each
