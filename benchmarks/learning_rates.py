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
from gradveil.errors import AnswerIsNo
from gradveil.experiments.settings import resolve
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.evaluate import score
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys

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


def with_held_out(dataset):
    """Move a tenth of the training examples into the validation split where there is none."""
    if dataset.validation is not None:
        return dataset
    order = np.random.default_rng(1).permutation(len(dataset.train))
    held, kept = order[: len(order) // 10], np.sort(order[len(order) // 10 :])
    parts = [Split(dataset.train.x[rows], dataset.train.y[rows]) for rows in (kept, held)]
    return Dataset(dataset.name, parts[0], parts[1], dataset.test, dataset.classes)


def try_rate(dataset, method, rate):
    """Train a few rounds and give the accuracy on the held-out examples, round by round."""
    changes = {"learning_rate": rate, "seed": 1, **BUDGETS[dataset.name]}
    changes["client_size"] = min(len(dataset.train) // 2 * 2, resolve(dataset.name, dataset, method, {}).client_size)
    plan = replace(resolve(dataset.name, dataset, method, changes))
    roots = Keys.of(plan.seed, False)
    engine = Vectorized(plan, Population.of(plan, dataset))
    state = server.init(plan, dataset.shape, len(dataset.classes), roots)
    return [
        score(plan.model, done.state.params, dataset.validation).accuracy for done in rounds(plan, engine, state, roots)
    ]


def main(names):
    """Try every candidate of every family."""
    for name in names or list(BUDGETS):
        dataset = with_held_out(load(name))
        for family, method in FAMILIES.items():
            for rate in (PICTURES if dataset.is_image else TABLES)[family]:
                began = time.perf_counter()
                try:
                    accuracies = try_rate(dataset, method, rate)
                except AnswerIsNo as error:
                    accuracies = [str(error)]
                line = {"dataset": name, "family": family, "rate": rate, "accuracy": accuracies}
                print(json.dumps(line | {"seconds": round(time.perf_counter() - began)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
