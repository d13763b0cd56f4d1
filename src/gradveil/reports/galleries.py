"""The gallery of an attack: truth, the guess at several moments, and the guess that reads no gradient."""

import numpy as np

from gradveil.reports.exhibits import Exhibit
from gradveil.reports.pictures import Strip, gallery


def drawn(exhibit: Exhibit, title: str) -> bytes:
    """Draw an exhibit of pictures as a PNG."""
    count = exhibit.guesses.shape[1]
    columns = ("truth", *(_column(i, count) for i in range(count)), "prior only")
    return gallery(title, columns, [_strip(exhibit, i) for i in range(len(exhibit.truth))])


def _column(i: int, count: int) -> str:
    last = count - 1
    return "start" if i == 0 and last > 0 else ("result" if i == last else f"moment {i}")


def _strip(exhibit: Exhibit, i: int) -> Strip:
    captions = [f"iteration {n}" for n in exhibit.iterations[i][:-1]] + [f"RMSE {exhibit.errors[i]:.3f}"]
    images = (exhibit.truth[i], *exhibit.guesses[i], exhibit.prior[i])
    below = ("", *captions, f"RMSE {exhibit.prior_errors[i]:.3f}")
    return Strip(f"client {exhibit.clients[i]}", tuple(np.clip(image, 0, 1) for image in images), below)
