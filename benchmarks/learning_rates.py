"""Search the learning rates that the paper leaves out: a few rounds each, judged on examples held out of training.

    python benchmarks/learning_rates.py [DATASET ...] > rates.jsonl

One line a candidate. The search looks at the data and is not covered by any epsilon.
"""

import json
import sys
import time
from dataclasses import replace

import numpy as np

from gradveil import methods
from gradveil.data.dataset import Dataset, Split
from gradveil.data.sources import load
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import RunFailed
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.evaluate import score
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.runs.presets import resolve

FAMILIES = {"plain": methods.NON_PRIVATE, "server": methods.FED_SDP, "example": methods.FED_CDP}
TABLES = {
    "plain": (0.01, 0.03, 0.1, 0.3),
    "server": (0.01, 0.03, 0.1, 0.3),
    "example": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
}
PICTURES = {"plain": (0.003, 0.01, 0.03, 0.1), "server": (0.03, 0.1), "example": (0.001, 0.003, 0.01, 0.03)}
BUDGETS = {
    "mnist": {"cohort": 20, "rounds": 3},
    "cifar10": {"cohort": 20, "rounds": 3},
    "lfw": {"cohort": 20, "rounds": 3},
    "adult": {"cohort": 50, "rounds": 4},
    "cancer": {"cohort": 100, "rounds": 3},
}


FEW = 1000
"""Where a tenth of the training examples is fewer than this, all of them are held out in turn, a fifth at a time."""


def with_held_out(dataset):
    """Give the dataset with examples held out of training: its validation split, or a tenth, or every fifth in turn."""
    if dataset.validation is not None:
        return [dataset]
    order = np.random.default_rng(1).permutation(len(dataset.train))
    tenth = len(order) // 10
    parts = [order[:tenth]] if tenth >= FEW else np.array_split(order, 5)
    return [holding_out(dataset, held) for held in parts]


def holding_out(dataset, held):
    """Move some training examples into the validation split."""
    kept = np.setdiff1d(np.arange(len(dataset.train)), held)
    train, validation = (Split(dataset.train.x[rows], dataset.train.y[rows]) for rows in (kept, held))
    return Dataset(dataset.name, train, validation, dataset.test, dataset.classes)


def try_rate(dataset, method, rate):
    """Train a few rounds and give the score on the held-out examples, round by round."""
    changes = {"learning_rate": rate, "seed": 1, **BUDGETS[dataset.name]}
    changes["client_size"] = min(len(dataset.train) // 2 * 2, resolve(dataset.name, dataset, method, {}).client_size)
    plan = replace(resolve(dataset.name, dataset, method, changes))
    roots = Keys.of(plan.seed, False)
    engine = Vectorized(plan, Population.of(plan, dataset))
    state = server.init(plan, dataset.shape, len(dataset.classes), roots)
    return [score(plan.model, done.state.params, dataset.validation) for done in rounds(plan, engine, state, roots)]


def try_all(datasets, method, rate):
    """Give the mean accuracy round by round, and the mean loss at the end, over all ways of holding out."""
    try:
        scores = [try_rate(dataset, method, rate) for dataset in datasets]
    except RunFailed as error:
        return {"accuracy": [str(error)], "loss": None}
    accuracies = np.mean([[one.accuracy for one in rounds_] for rounds_ in scores], axis=0)
    return {"accuracy": accuracies.tolist(), "loss": float(np.mean([rounds_[-1].loss for rounds_ in scores]))}


def main(names):
    """Try every candidate of every family."""
    for name in names or list(BUDGETS):
        datasets = with_held_out(load(name))
        for family, method in FAMILIES.items():
            for rate in (PICTURES if datasets[0].is_image else TABLES)[family]:
                began = time.perf_counter()
                line = {"dataset": name, "family": family, "rate": rate, **try_all(datasets, method, rate)}
                print(json.dumps(line | {"seconds": round(time.perf_counter() - began)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
