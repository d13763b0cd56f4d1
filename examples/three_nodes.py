"""Three hospitals over Flower, with three CSV files of different size and one schema; each command runs where it says.

python examples/three_nodes.py        needs gradveil[flower]; here all of it runs on one machine
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gradveil.engines.flower.processes import free_ports

HOSPITALS = {"city": 600, "county": 150, "island": 20}
SCHEMA = """\
public = true

[target]
kind = "class"
name = "readmitted"
classes = ["no", "yes"]

[[columns]]
kind = "number"
name = "age"
low = 0
high = 120

[[columns]]
kind = "category"
name = "ward"
levels = ["heart", "lung"]
"""
PLAN = 'dataset = "test.csv"\nmethod = "fed-cdp"\nrounds = 3\nlearning_rate = 2.0\n'


def main() -> dict[str, Any]:
    """Return the result of the run."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "schema.toml").write_text(SCHEMA)  # agreed upon by all, before anyone looks at a patient
        for seed, (name, rows) in enumerate({**HOSPITALS, "test": 200}.items()):
            (here / f"{name}.csv").write_text(patients(rows, seed))

        for name in HOSPITALS:  # in each hospital
            gradveil(here, f"federate key {name}")
            gradveil(here, f"federate clients --data {name}.csv --schema schema.toml --client {name} --out {name}.json")
        gradveil(here, "federate policy --out policy.toml")  # each writes its own; these agree

        (here / "plan.toml").write_text(PLAN)  # on the server, which got {name}.pub and {name}.json
        gradveil(here, "federate keys keys --nodes city.pub,county.pub,island.pub")
        port, *runtimes = free_ports(4)
        nodes = [
            started(
                here,
                f"federate node --data {name}.csv --schema schema.toml --client {name} --server localhost:{port} "
                f"--key {name}.key --ca keys/ca.crt --roster keys/roster.json --policy policy.toml "
                f"--state {name}-state --runtime-port {runtime}",
            )
            for name, runtime in zip(HOSPITALS, runtimes, strict=True)
        ]
        try:
            said = gradveil(
                here,
                "federate server plan.toml --schema schema.toml --clients city.json,county.json,island.json "
                f"--nodes city,county,island --port {port} --out run --json",
            )
        finally:
            for node in nodes:
                node.terminate()
                node.wait()
    result: dict[str, Any] = json.loads(said)
    print(f"accuracy {result['accuracy']:.2f}")
    for client in result["clients"]:
        print(f"{client['name']}: {client['examples']} rows, epsilon {client['epsilon']:.2f}")
    return result


def gradveil(here: Path, command: str) -> str:
    """Run a command to its end, and return what it printed."""
    whole = [sys.executable, "-m", "gradveil", *command.split()]
    return subprocess.run(whole, cwd=here, check=True, text=True, stdout=subprocess.PIPE).stdout


def started(here: Path, command: str) -> "subprocess.Popen[bytes]":
    """Start a command that runs until it is stopped."""
    return subprocess.Popen([sys.executable, "-m", "gradveil", *command.split()], cwd=here)


def patients(count: int, seed: int) -> str:
    """Return a made-up table: patients above 60 come back more often."""
    draw = random.Random(seed)
    lines = ["age,ward,readmitted"]
    for _ in range(count):
        age = draw.randint(18, 95)
        back = draw.random() < (0.9 if age > 60 else 0.1)
        lines.append(f"{age},{draw.choice(['heart', 'lung'])},{'yes' if back else 'no'}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
