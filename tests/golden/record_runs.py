"""Record what seeded runs give, to the bit: every method, three datasets, both engines.

    python tests/golden/record_runs.py write     # make tests/golden/runs.json anew
    python tests/golden/record_runs.py check     # say what differs from it

A change that moves or renames code must leave the file as it is. Bits of parameters and attacks are those of one kind
of processor and one version of JAX, which the file names; guarantees are the same everywhere.
"""

import hashlib
import json
import platform
import sys
import tempfile
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

FILE = Path(__file__).with_name("runs.json")
SIZES = {
    "digits": {"clients": 12, "cohort": 4, "local_steps": 4},
    "cancer": {"clients": 8, "cohort": 4, "local_steps": 4},
    "mnist": {"clients": 200, "cohort": 6, "local_steps": 4},
}
ENGINES = ("serial", "vectorized")
SUMS = "fed-sum"
"""The method of one local step, whose first rounds release no gradient to attack."""
WORKERS = 2
ATTACKED = {"digits": (2,), "cancer": (0, 1, 2), "mnist": (2,)}
NUMBERS = ("epsilon", "delta", "unit", "threat_model", "adjacency", "accountant", "sampling", "noise_source")


def machine():
    """Give what bits depend on: processor, system and versions."""
    import jax
    import jaxlib

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"processor": model, "system": platform.system(), "jax": jax.__version__, "jaxlib": jaxlib.__version__}


def recorded(case, attack=True):
    """Train one method on one dataset with one engine; attack the run if it is wanted and the engine is fast."""
    import gradveil

    dataset, method, engine = case
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        sizes = {key: value for key, value in SIZES[dataset].items() if key != "local_steps" or method != SUMS}
        plan = gradveil.plan(dataset, method, rounds=3, seed=7, **sizes)
        result = plain(gradveil.train(plan, run, engine=engine).result)
        row = {key: result[key] for key in ("params_sha256", "accuracy", "test_examples")}
        row["guarantees"] = [{key: rounded(held[key]) for key in NUMBERS} for held in result["guarantees"]]
        row["as_the_paper_accounts"] = numbers(result["as_the_paper_accounts"])
        if attack and engine == "vectorized" and method != SUMS:
            row["attacks"] = [attacked(run, surface) for surface in ATTACKED[dataset]]
    return "/".join(case), row


def attacked(run, surface):
    """Attack what one surface released in the first round; give a digest of the record's numbers."""
    import gradveil
    from gradveil.attacks.zoo import MAP

    record = plain(gradveil.attack(run, surface, replace(MAP, iterations=4), 2, rounds=(0,)))
    text = json.dumps(numbers(record), sort_keys=True)
    return {"surface": surface, "sha256": hashlib.sha256(text.encode()).hexdigest(), "mean_rmse": record["mean_rmse"]}


def numbers(record):
    """Give the numbers of a record, without what was measured by the clock and without words."""
    if isinstance(record, dict):
        kept = {key: numbers(value) for key, value in record.items() if "seconds" not in key}
        return {key: value for key, value in kept.items() if value is not None}
    if isinstance(record, list | tuple):
        return [numbers(value) for value in record]
    return None if isinstance(record, str) else rounded(record)


def rounded(value):
    """Give a float to ten digits: the same arithmetic in another order may change the sixteenth."""
    return float(f"{value:.10g}") if isinstance(value, float) else value


def plain(record):
    """Give a record as a dict, whatever type the package uses for it."""
    return record if isinstance(record, dict) else record.plain()


def cases(methods, datasets=tuple(SIZES), engines=ENGINES):
    """Give every combination."""
    return [(dataset, method, engine) for dataset in datasets for method in methods for engine in engines]


def record():
    """Give the whole record, two processes at a time."""
    from gradveil.methods import METHODS

    rows = {}
    with get_context("spawn").Pool(WORKERS, maxtasksperchild=8) as pool:
        for name, row in pool.imap(recorded, cases(METHODS)):
            rows[name] = row
            sys.stderr.write(f"{len(rows)}: {name}\n")
    return {"machine": machine(), "runs": rows}


def main():
    """Write or check."""
    now = record()
    if sys.argv[1:] == ["write"]:
        FILE.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
        return 0
    then, now = json.loads(FILE.read_text()), json.loads(json.dumps(now))
    different = [f"machine: {then['machine']} then, {now['machine']} now"] * (then["machine"] != now["machine"])
    for name in sorted({*then["runs"], *now["runs"]}):
        old, new = then["runs"].get(name, {}), now["runs"].get(name, {})
        different += [f"{name}: {key}" for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    sys.stderr.write("".join(f"{line}\n" for line in different) or f"{len(now['runs'])} runs as recorded\n")
    return bool(different)


if __name__ == "__main__":
    raise SystemExit(main())
