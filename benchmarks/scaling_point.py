"""Measure one size of one thing that grows, in a process of its own; run by `gradveil bench --scaling`.

    python benchmarks/scaling_point.py WHAT SIZE

Prints one line of JSON: seconds by the clock and of the processor, without imports and compiling, and the most memory
that the process held, in megabytes.
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from gradveil import keys, methods
from gradveil.data import user_data
from gradveil.data.dataset import Dataset, Split
from gradveil.data.sampling import CohortSampling
from gradveil.engines.vectorized import Vectorized
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.models.networks import Mlp

INPUTS, CLASSES, EXAMPLES = 100, 10, 20_000
COLUMNS = 10


def made_up():
    """Give a dataset of random rows."""
    random = np.random.default_rng(0)
    x = random.standard_normal((EXAMPLES, INPUTS), np.float32)
    y = random.integers(0, CLASSES, EXAMPLES, np.int32)
    half = Split(x, y)
    return Dataset("synthetic", half, None, half, tuple(map(str, range(CLASSES))))


def round_of(clients, cohort, steps, width):
    """Give a function that splits the data, draws a cohort and trains it for one round of Fed-CDP."""
    data = made_up()
    plan = Plan(
        dataset="synthetic",
        method=methods.FED_CDP,
        clients=clients,
        cohort=cohort,
        rounds=1,
        local_steps=steps,
        batch=5,
        client_size=10,
        learning_rate=0.01,
        model=Mlp((width,)),
    )
    roots = Keys.of(0, secret=False)
    state = server.init(plan, (INPUTS,), CLASSES, roots)
    task = task_for(plan, 0, state.params, state.clip_state, keys.named(roots.private, "round", 0))

    def once():
        engine = Vectorized(plan, Population.of(plan, data))
        drawn = CohortSampling.FIXED.draw(keys.named(roots.private, "cohort", 0), clients, cohort)
        engine.train(task, drawn)

    return once


def csv_of(rows):
    """Give a function that reads a file of so many rows."""
    random = np.random.default_rng(0)
    file = Path(tempfile.mkdtemp()) / "rows.csv"
    with file.open("w") as out:
        out.write(",".join([*(f"c{i}" for i in range(COLUMNS)), "target"]) + "\n")
        for start in range(0, rows, 10_000):
            some = min(10_000, rows - start)
            numbers, labels = random.standard_normal((some, COLUMNS)), random.integers(0, 2, some)
            out.writelines(
                f"{','.join(f'{v:.4f}' for v in row)},{'yes' if y else 'no'}\n"
                for row, y in zip(numbers, labels, strict=True)
            )
    return lambda: user_data.load(file, "target")


MEASURED = {
    "client-steps": lambda size: round_of(1_000, 10, size // 10, 64),
    "clients": lambda size: round_of(size, 10, 1, 64),
    "parameters": lambda size: round_of(100, 4, 2, size // (INPUTS + CLASSES)),
    "rows": csv_of,
}


def main():
    """Do it twice, and time the second."""
    once = MEASURED[sys.argv[1]](int(sys.argv[2]))
    once()
    began, used = time.perf_counter(), time.process_time()
    once()
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "megabytes": most}))


main()
