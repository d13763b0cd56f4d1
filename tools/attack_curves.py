"""What attacks rebuild, against noise, batch, local steps and units: `python -m tools.attack_curves`.

Points are kept in docs/attack-curves.json as they are computed, and a point that is there is not computed again; delete
the file to begin anew. docs/attack-curves.svg is drawn from it. Needs the Adult data (GRADVEIL_DATA); the digits are
scikit-learn's. All points together take about 15 minutes on one core.
"""

import json
import time
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import numpy as np
from matplotlib.figure import Figure

from gradveil.attacks.attack import Attack, mount
from gradveil.attacks.exact import Exact
from gradveil.attacks.imprint import Imprint
from gradveil.attacks.membership import Membership
from gradveil.attacks.metrics import assigned
from gradveil.attacks.zoo import CPL, MAP, UNROLLED
from gradveil.data.dataset import Dataset
from gradveil.data.sources import load, locate
from gradveil.federation.leaks import Tap
from gradveil.leakage import attack_run, scenes
from gradveil.leakage.scenes import Scene
from gradveil.models.networks import AttackNet, Mlp
from gradveil.privacy.clip import Flat
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.shorthand import Tweaks, method_named
from gradveil.surface import Surface

DOCS = Path(__file__).parents[1] / "docs"
DATA, PICTURE = DOCS / "attack-curves.json", DOCS / "attack-curves.svg"
VICTIMS, NEAR = 5, 0.01
"""Clients per point, and how near every value of a row must be for the row to count as rebuilt."""
ATTACKS: dict[str, Attack] = {
    "exact": Exact(),
    "imprint": Imprint(),
    "cpl": replace(CPL, iterations=30),
    "map": MAP,
    "unrolled": UNROLLED,
    "membership": Membership(),
}
COMPARED = ("cpl", "map")
PICTURES = (*COMPARED, "unrolled", "membership")
"""Attacks that are run on digits, at the paper's attack network."""


@dataclass(frozen=True, slots=True)
class Point:
    """One setting: sigma is the noise on the sum of a batch in multiples of C, 0 for none at all.

    units: of the first dense layer; of no meaning for digits, which are attacked at a network of convolutions.
    """

    attack: str
    batch: int
    steps: int = 1
    units: int = 600
    sigma: float = 0.0

    @property
    def dataset(self) -> str:
        """The data that the attack is run on."""
        return "digits" if self.attack in PICTURES else "adult"


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity that is varied, what its axes say, and a curve for each attack."""

    varied: str
    title: str
    measure: str
    curves: dict[str, list[Point]]


BATCHES, STEPS, UNITS = (1, 4, 8, 12, 16, 20, 24), (1, 2, 3, 4, 5, 6), (25, 50, 100, 200, 600)
SIGMAS, LARGE_SIGMAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0), (1e-4, 1e-3, 1e-2, 0.1, 1.0)
TOLD_SIGMAS = (0.1, 0.3, 1.0, 3.0, 10.0)
ROWS, ERROR, TOLD = "share of rows rebuilt", "share of the error removed", "members told at 1 % false alarms"
EXACT, IMPRINT = "exact", "imprint, malicious server"
PANELS = (
    Panel(
        "batch",
        "Adult: examples in the batch",
        ROWS,
        {
            EXACT: [Point("exact", b) for b in BATCHES],
            IMPRINT: [Point("imprint", b) for b in (*BATCHES, 48, 100)],
        },
    ),
    Panel("steps", "Adult: local steps, batches of 4", ROWS, {EXACT: [Point("exact", 4, steps=s) for s in STEPS]}),
    Panel(
        "units",
        "Adult: units of the first layer, batches of 8",
        ROWS,
        {
            EXACT: [Point("exact", 8, units=u) for u in UNITS],
            IMPRINT: [Point("imprint", 8, units=u) for u in UNITS],
        },
    ),
    Panel(
        "sigma",
        "Adult: sigma of Fed-CDP, batches of 8",
        ROWS,
        {
            EXACT: [Point("exact", 8, sigma=s) for s in SIGMAS],
            IMPRINT: [Point("imprint", 8, sigma=s) for s in SIGMAS],
        },
    ),
    Panel(
        "sigma",
        "digits: sigma of Fed-CDP, single examples",
        ERROR,
        {name: [Point(name, 1, sigma=s) for s in LARGE_SIGMAS] for name in COMPARED},
    ),
    Panel(
        "batch",
        "digits: examples in the batch",
        ERROR,
        {name: [Point(name, b) for b in (1, 2, 4)] for name in COMPARED},
    ),
    Panel(
        "steps",
        "digits: local steps, batches of 2",
        ERROR,
        {"unrolled": [Point("unrolled", 2, steps=s) for s in (1, 2, 3)]},
    ),
    Panel(
        "sigma",
        "digits: sigma of Fed-CDP, batches of 3",
        TOLD,
        {"membership": [Point("membership", 3, sigma=s) for s in TOLD_SIGMAS]},
    ),
)


def scene_of(point: Point, data: Dataset) -> Scene:
    """Set up an untrained network under the settings of a point; a malicious server sends weights of its own."""
    method = method_named("fed-cdp" if point.sigma else "non-private")
    method = Tweaks(sigma=point.sigma).of(replace(method, clip=Flat(1.0))) if point.sigma else method
    plan = resolve(locate(point.dataset), data, chosen(method, data), {"seed": 0})
    surface = Surface.UPDATE if point.steps > 1 else Surface.EXAMPLE
    model = AttackNet() if point.attack in PICTURES else Mlp(hidden=(point.units, 100))
    plan = scenes.as_paper(replace(plan, model=model), surface, point.batch, point.steps)
    tap, attack = Tap(surface, "released", point.batch == 1), ATTACKS[point.attack]
    scene = scenes.fresh(plan, data, tap)
    if isinstance(attack, Imprint):
        honest, _ = attack_run.leak_of(scene, 0, attack_run.public_half(data))
        scene = scenes.fresh(plan, data, tap, 1, attack.planted(honest))
    return scene


def measured(point: Point, data: Dataset) -> dict[str, Any]:
    """Return what an attack reached at a point, and the seconds it took."""
    scene, began = scene_of(point, data), time.process_time()
    find = _members if point.attack == "membership" else _pictures if point.attack in PICTURES else _rows
    found = find(point, scene)
    return asdict(point) | found | {"cpu_seconds": round(time.process_time() - began, 1)}


def _rows(point: Point, scene: Scene) -> dict[str, Any]:
    """Count the rows of a few clients that were rebuilt."""
    public = attack_run.public_half(scene.dataset)
    held = [attack_run.leak_of(scene, int(c), public) for c in scene.victims(VICTIMS, 0)]
    near = 0
    for one, (_, truth) in zip(mount(ATTACKS[point.attack], [leak for leak, _ in held], 0), held, strict=True):
        mine, theirs = assigned(one.x[-1], truth.x)
        near += int(np.sum(np.abs(one.x[-1][mine] - truth.x[theirs]).max(axis=1) <= NEAR))
    return {"rebuilt": near, "rows": sum(len(truth.y) for _, truth in held)}


def _pictures(point: Point, scene: Scene) -> dict[str, Any]:
    """Return the error of a few clients' digits, beside that of a guess that reads no gradient."""
    record = attack_run.attack(scene, ATTACKS[point.attack], VICTIMS, identify=False, cores=1).record
    ci = record.gain_ci
    return {
        "rmse": round(record.mean_rmse, 4),
        "prior_rmse": round(record.prior_rmse, 4),
        "gain": round(record.gain, 4),
        "gain_ci": [round(end, 4) for end in ci] if ci else None,
    }


def _members(point: Point, scene: Scene) -> dict[str, Any]:
    """Return how many members are told at one false alarm in a hundred, beside the most that the noise allows."""
    told = attack_run.attack(scene, ATTACKS[point.attack], VICTIMS, cores=1).record.plain()["membership"]
    rate = next(one for one in told["rates"] if one["fpr"] == 0.01)
    return {
        "tpr": round(rate["tpr"], 4),
        "tpr_ci": [round(end, 4) for end in rate["tpr_ci"]],
        "bound": round(rate["bound"], 4),
    }


def known() -> list[dict[str, Any]]:
    """Return the points that were computed before."""
    return list(json.loads(DATA.read_text())) if DATA.exists() else []


def points() -> list[Point]:
    """Return every point of every curve once."""
    return list(dict.fromkeys(p for panel in PANELS for curve in panel.curves.values() for p in curve))


def computed() -> list[dict[str, Any]]:
    """Compute the points that are missing, and write them down one by one."""
    lines, loaded = known(), dict[str, Dataset]()
    for point in points():
        if not any(asdict(point).items() <= line.items() for line in lines):
            data = loaded.setdefault(point.dataset, load(point.dataset))
            lines.append(measured(point, data))
            DATA.write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")
    return lines


def height(line: dict[str, Any]) -> float:
    """Return where a point lies: the share of members, of rows, or of the prior-only error (not below -0.05)."""
    if "tpr" in line:
        return float(line["tpr"])
    if "rows" in line:
        return float(line["rebuilt"] / line["rows"])
    return max(-0.05, 1 - float(line["rmse"] / line["prior_rmse"]))


def drawing(lines: list[dict[str, Any]]) -> str:
    """Return the figure as SVG, a panel for each quantity that is varied; points that are not there are left out."""
    with mpl.rc_context({"svg.hashsalt": "gradveil", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 12), layout="constrained")
        for place, panel in enumerate(PANELS):
            axes = figure.add_subplot(4, 2, place + 1)
            for mark, (label, curve) in zip("os", panel.curves.items(), strict=False):
                there = [line for p in curve for line in lines if asdict(p).items() <= line.items()]
                axes.plot([line[panel.varied] for line in there], [height(line) for line in there], mark, ls="-")
                axes.lines[-1].set_label(label)
                if all("bound" in line for line in there):
                    ends = [line[panel.varied] for line in there], [line["bound"] for line in there]
                    axes.plot(*ends, ls="--", color="gray", label="most that the guarantee allows")
            axes.set(xlabel=panel.title, ylabel=panel.measure, ylim=(-0.1, 1.05))
            if panel.varied in ("units", "sigma"):
                axes.set_xscale("log")
            axes.legend(frameon=False)
        picture = StringIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
        return picture.getvalue()


if __name__ == "__main__":
    PICTURE.write_text(drawing(computed()))
