"""What attacks on dense layers rebuild, against batch, units, local steps and noise: `python -m tools.attack_curves`.

Points are kept in docs/attack-curves.json as they are computed, and a point that is there is not computed again; delete
the file to begin anew. docs/attack-curves.svg is drawn from it. Needs the Adult data (GRADVEIL_DATA).
"""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import numpy as np
from matplotlib.figure import Figure

from gradveil.attacks.attack import Attack, mount
from gradveil.attacks.exact import Exact
from gradveil.attacks.imprint import Imprint
from gradveil.attacks.metrics import assigned
from gradveil.data.dataset import Dataset
from gradveil.data.sources import load, locate
from gradveil.federation.leaks import Tap
from gradveil.leakage import attack_run, scenes
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.shorthand import Tweaks, method_named
from gradveil.surface import Surface

DOCS = Path(__file__).parents[1] / "docs"
DATA, PICTURE = DOCS / "attack-curves.json", DOCS / "attack-curves.svg"
VICTIMS, NEAR = 5, 0.01
"""Clients per point, and how near every value of a row must be for the row to count as rebuilt."""
ATTACKS: dict[str, Attack] = {"exact": Exact(), "imprint": Imprint()}


@dataclass(frozen=True, slots=True)
class Point:
    """One setting on Adult: sigma is the noise on the sum of a batch in multiples of C, 0 for none at all."""

    attack: str
    batch: int
    steps: int = 1
    units: int = 600
    sigma: float = 0.0


BATCHES, STEPS, UNITS = (1, 4, 8, 12, 16, 20, 24), (1, 2, 3, 4, 5, 6), (25, 50, 100, 200, 600)
SIGMAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0)
CURVES: dict[str, dict[str, list[Point]]] = {
    "examples in the batch": {
        "exact": [Point("exact", b) for b in BATCHES],
        "imprint, malicious server": [Point("imprint", b) for b in (*BATCHES, 48, 100)],
    },
    "local steps, batches of 4": {"exact": [Point("exact", 4, steps=s) for s in STEPS]},
    "units of the first layer, batches of 8": {
        "exact": [Point("exact", 8, units=u) for u in UNITS],
        "imprint, malicious server": [Point("imprint", 8, units=u) for u in UNITS],
    },
    "sigma of Fed-CDP, batches of 8": {
        "exact": [Point("exact", 8, sigma=s) for s in SIGMAS],
        "imprint, malicious server": [Point("imprint", 8, sigma=s) for s in SIGMAS],
    },
}


def rebuilt(point: Point, data: Dataset) -> dict[str, Any]:
    """Return how many rows of a few clients were rebuilt, of how many, and the seconds the attack took."""
    method = method_named("fed-cdp" if point.sigma else "non-private")
    method = Tweaks(sigma=point.sigma).of(replace(method, clip=Flat(1.0))) if point.sigma else method
    plan = resolve(locate("adult"), data, chosen(method, data), {"seed": 0})
    surface = Surface.UPDATE if point.steps > 1 else Surface.EXAMPLE
    plan = scenes.as_paper(replace(plan, model=Mlp(hidden=(point.units, 100))), surface, point.batch, point.steps)
    tap, public = Tap(surface, "released", point.batch == 1), attack_run.public_half(data)
    scene, attack = scenes.fresh(plan, data, tap), ATTACKS[point.attack]
    if isinstance(attack, Imprint):
        honest, _ = attack_run.leak_of(scene, 0, public)
        scene = scenes.fresh(plan, data, tap, 1, attack.planted(honest))
    held = [attack_run.leak_of(scene, int(c), public) for c in scene.victims(VICTIMS, 0)]
    began = time.process_time()
    found = mount(attack, [leak for leak, _ in held], 0)
    seconds = time.process_time() - began
    near = 0
    for one, (_, truth) in zip(found, held, strict=True):
        mine, theirs = assigned(one.x[-1], truth.x)
        near += int(np.sum(np.abs(one.x[-1][mine] - truth.x[theirs]).max(axis=1) <= NEAR))
    rows = sum(len(truth.y) for _, truth in held)
    return asdict(point) | {"rebuilt": near, "rows": rows, "cpu_seconds": round(seconds, 1)}


def known() -> list[dict[str, Any]]:
    """Return the points that were computed before."""
    return list(json.loads(DATA.read_text())) if DATA.exists() else []


def computed() -> list[dict[str, Any]]:
    """Compute the points that are missing, and write them down one by one."""
    lines, data = known(), load("adult", data_dir=None, target=None)
    for point in dict.fromkeys(p for panel in CURVES.values() for curve in panel.values() for p in curve):
        if not any(asdict(point).items() <= line.items() for line in lines):
            lines.append(rebuilt(point, data))
            DATA.write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")
    return lines


def draw(lines: list[dict[str, Any]]) -> None:
    """Draw a panel for each quantity that is varied; points that are not there yet are left out."""
    axis = ("batch", "steps", "units", "sigma")
    with mpl.rc_context({"svg.hashsalt": "gradveil", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 6), layout="constrained")
        for place, ((title, panel), name) in enumerate(zip(CURVES.items(), axis, strict=True)):
            axes = figure.add_subplot(2, 2, place + 1)
            for mark, (label, points) in zip("os", panel.items(), strict=False):
                there = [line for p in points for line in lines if asdict(p).items() <= line.items()]
                x, y = [line[name] for line in there], [line["rebuilt"] / line["rows"] for line in there]
                axes.plot(x, y, marker=mark, label=label)
            axes.set(xlabel=title, ylabel="share of rows rebuilt", ylim=(-0.05, 1.05))
            if name in ("units", "sigma"):
                axes.set_xscale("log")
            axes.legend(frameon=False)
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    draw(computed())
