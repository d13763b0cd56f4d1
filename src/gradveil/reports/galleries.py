"""The gallery of an attack: truth, the guess at several moments, and the guess that reads no gradient."""

import numpy as np

from gradveil.attacks.score import limits, prior_guess
from gradveil.experiments.attacking import Outcome
from gradveil.reports.pictures import Strip, frames, gallery

ROWS, MOMENTS = 6, 5


def gallery_of(outcome: Outcome) -> bytes:
    """Draw up to six victims as a PNG."""
    r = outcome.record
    title = f"{r['attack']} against {r['method']} on {r['dataset']}, surface {r['surface']} ({r['view']})"
    count = max(len(f.x) for f in outcome.founds)
    columns = ("truth", *(_column(i, count) for i in range(min(MOMENTS, count))), "prior only")
    return gallery(
        title, columns, [_strip(outcome, i, len(columns) - 2) for i in range(min(ROWS, len(outcome.founds)))]
    )


def _column(i: int, count: int) -> str:
    last = min(MOMENTS, count) - 1
    return "start" if i == 0 and last > 0 else ("result" if i == last else f"moment {i}")


def _strip(outcome: Outcome, i: int, moments: int) -> Strip:
    """Show the first example of a victim: the guess that came nearest to it, at several moments."""
    found, truth, leak = outcome.founds[i], outcome.truths[i].x[0], outcome.leaks[i]
    low, high = limits(leak)
    errors = [float(np.sqrt(np.mean(np.square(np.clip(g, low, high) - truth)))) for g in found.x[-1]]
    nearest = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
    shown = np.resize(frames(len(found.x), moments) if moments > 1 else (len(found.x) - 1,), moments)
    shown = np.sort(shown)
    pictures = [np.clip(np.nan_to_num(found.x[s][nearest]), 0, 1).astype(np.float32) for s in shown]
    guess = prior_guess(leak).astype(np.float32)
    captions = [f"iteration {int(found.iterations[s])}" for s in shown[:-1]] + [f"RMSE {errors[nearest]:.3f}"]
    prior = float(np.sqrt(np.mean(np.square(guess - truth))))
    images = (truth.astype(np.float32), *pictures, guess)
    return Strip(f"client {outcome.clients[i]}", images, ("", *captions, f"RMSE {prior:.3f}"))
