"""The frames of the site's leak lab: `python -m tools.site.leak_frames`, some minutes on one core.

For every method, noise scale and batch one client's gradient of scikit-learn's digits is read at surface 2 (one batch
at an untrained network) and attacked; the page shows the guess at several moments beside the truth and beside a guess
that reads no gradient. The attack is `map`, which knows the noise, in steps small enough to be watched. Pictures are
8 x 8, a hexadecimal digit for each pixel. Settings are kept as they are computed, and one that is there is not computed
again.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.attacks.metrics import assigned
from gradveil.attacks.score import limits, prior_guess
from gradveil.attacks.zoo import MAP
from gradveil.data.dataset import Dataset
from gradveil.data.sources import load
from gradveil.federation.leaks import Tap
from gradveil.leakage import attack_run, scenes
from gradveil.leakage.attack_run import Outcome
from gradveil.methods import METHODS
from gradveil.models.networks import AttackNet
from gradveil.privacy.schedule import Constant
from gradveil.runs.presets import fitted, resolve
from gradveil.surface import Surface

FILE = Path(__file__).parents[2] / "docs" / "_static" / "leak-frames.js"
BEGIN = "const LEAKS = "
DATASET, SHOWN, MOMENTS = "digits", 4, 8
"""The pictures of a batch that are shown at most, and the moments of the attack."""
SIGMAS, BATCHES = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 6.0), (1, 2, 4)
ATTACK: Any = MAP
WATCHED = replace(ATTACK, iterations=60, optimizer=replace(ATTACK.optimizer, inner=3, least_gain=0.0))
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A method, its noise scale (0 where it adds no noise) and the examples of the batch."""

    method: str
    sigma: float
    batch: int


def settings() -> list[Setting]:
    """Return what the page lets one choose."""
    bare = [Setting("non-private", 0.0, batch) for batch in BATCHES]
    return bare + [Setting("fed-cdp", sigma, batch) for sigma in SIGMAS for batch in BATCHES]


def attacked(setting: Setting, data: Dataset) -> Outcome:
    """Attack the first client that the seed draws, under the setting."""
    method = fitted(METHODS[setting.method].value, data)
    if setting.sigma:
        method = replace(method, noise=Constant(setting.sigma))
    plan = resolve(DATASET, data, method, {"model": AttackNet(), "seed": 0})
    plan = scenes.as_paper(plan, Surface.EXAMPLE, setting.batch, 1)
    scene = scenes.fresh(plan, data, Tap(Surface.EXAMPLE, "released", setting.batch == 1))
    return attack_run.attack(scene, WATCHED, 1, identify=False, cores=1)


def measured(setting: Setting, data: Dataset) -> dict[str, Any]:
    """Return what the page shows of a setting: pictures, errors, and the moments they belong to."""
    outcome = attacked(setting, data)
    (found,), (truth,), (leak,) = outcome.reconstructions, outcome.truths, outcome.leaks
    low, high = limits(leak)
    mine, theirs = assigned(found.x[-1], truth.x)
    order = mine[np.argsort(theirs)][:SHOWN]
    moments = np.unique(np.linspace(0, len(found.x) - 1, MOMENTS).round().astype(int))
    guesses = [np.clip(np.nan_to_num(found.x[m][order]), low, high) for m in moments]
    record = outcome.record
    return asdict(setting) | {
        "truth": [digits(picture) for picture in truth.x[:SHOWN]],
        "prior": digits(prior_guess(leak)),
        "iterations": [int(found.iterations[m]) for m in moments],
        "frames": [[digits(picture) for picture in guess] for guess in guesses],
        "error": round(record.mean_rmse, 3),
        "prior_error": round(record.prior_rmse, 3),
        "fitted": not record.not_fitted,
    }


def digits(picture: Array) -> str:
    """Return a picture of values from 0 to 1 as a hexadecimal digit a pixel.

    >>> digits(np.array([[0.0, 1.0], [0.5, 2.0]]))
    '0f8f'
    """
    return "".join(f"{int(level):x}" for level in np.clip(np.rint(picture.ravel() * 15), 0, 15))


def known() -> list[dict[str, Any]]:
    """Return the settings that the site has."""
    return list(json.loads(FILE.read_text(encoding="utf-8").removeprefix(BEGIN).rstrip(";\n"))) if FILE.exists() else []


def write(lines: list[dict[str, Any]]) -> None:
    """Write the settings as a script, so that the page also opens from disk."""
    texts = (json.dumps(line, separators=(",", ":")) for line in lines)
    FILE.write_text(BEGIN + "[\n" + ",\n".join(texts) + "\n];\n", encoding="utf-8")


if __name__ == "__main__":
    lines, data = known(), load(DATASET)
    for setting in settings():
        if not any(asdict(setting).items() <= line.items() for line in lines):
            lines.append(measured(setting, data))
            write(lines)
