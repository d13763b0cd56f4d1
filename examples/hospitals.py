"""Hospitals of very different size as the clients of a run: each with all of its rows, each with its own epsilon.

python examples/hospitals.py
"""

import numpy as np
import pyarrow as pa

import gradveil
from gradveil.data.table_schema import ClassTarget, NumberColumn, Schema

HOSPITALS = {"city": 900, "county": 300, "valley": 80, "island": 20}
SCHEMA = Schema(
    ClassTarget("readmitted", ("no", "yes")),
    (NumberColumn("age", 0, 120), NumberColumn("days", 0, 60)),
    public=True,
)


def main() -> tuple[float, dict[str, int]]:
    """Return the test accuracy, and the training rows of each hospital."""
    frame = stays()  # a frame of pandas or polars would do as well
    data = gradveil.Dataset.of(frame, schema=SCHEMA, clients="hospital", name="stays")
    plan = gradveil.plan(data, "fed-cdp", rounds=40, max_epsilon=4.0)
    result = gradveil.train(plan, data=data).result

    accuracy = result.accuracy or 0.0  # none where a number is predicted
    print(f"accuracy {accuracy:.2f}")
    for client in result.clients or ():
        print(f"{client.name}: {client.examples} rows, {client.participations} rounds, epsilon {client.epsilon:.2f}")
    return accuracy, {client.name: client.examples for client in result.clients or ()}


def stays() -> pa.Table:
    """Return made-up stays: old patients and long stays come back more often."""
    draw = np.random.default_rng(1)
    names = np.repeat(list(HOSPITALS), list(HOSPITALS.values()))
    age, days = draw.integers(18, 95, len(names)), draw.integers(1, 40, len(names))
    risk = (age - 60) / 20 + (days - 20) / 10
    back = draw.random(len(names)) < 1 / (1 + np.exp(-2 * risk))
    return pa.table({"age": age, "days": days, "hospital": names, "readmitted": np.where(back, "yes", "no")})


if __name__ == "__main__":
    main()
