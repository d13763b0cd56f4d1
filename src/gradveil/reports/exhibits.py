"""What an attack has to show: of some victims the truth, the guess at several moments, and a guess that reads nothing.

Kept beside the attack's record in a file that only its owner can read, since it holds true records.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.attacks.score import limits, prior_guess
from gradveil.errors import BadInput
from gradveil.leakage.attack_run import Outcome
from gradveil.reports.pictures import Strip, frames, gallery
from gradveil.runs import store

ROWS, MOMENTS = 6, 5
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Exhibit:
    """Up to six victims of one attack.

    truth: float32 [v, ...]. guesses: [v, m, ...], clamped, those nearest to the truth in a batch. prior: [v, ...], of a
    guesser who reads no gradient. iterations: [v, m]. errors, prior_errors: RMSE [v]. clients: [v]. columns: for rows
    of tables, the name, first and last place of every feature.
    """

    truth: Array
    guesses: Array
    prior: Array
    iterations: Array
    errors: Array
    prior_errors: Array
    clients: Array
    columns: tuple[tuple[str, int, int], ...] = ()

    @property
    def is_image(self) -> bool:
        """Whether the victims are pictures."""
        return self.truth.ndim == 4

    def first(self, count: int) -> "Exhibit":
        """Return some of the victims."""
        return Exhibit(**{name: getattr(self, name)[:count] for name in _ARRAYS}, columns=self.columns)

    def save(self, path: Path) -> None:
        """Write it as plain arrays, for its owner alone."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        names = np.array([name for name, _, _ in self.columns], dtype=np.str_)
        ranges = np.array([span for _, *span in self.columns], np.int32).reshape(-1, 2)
        store.write(path, store.npz({**arrays, "column_names": names, "column_places": ranges}), owner_only=True)

    @staticmethod
    def load(path: Path) -> "Exhibit":
        """Read what `save` wrote; nothing pickled is opened."""
        file = store.read_npz(path, (*_ARRAYS, "column_names", "column_places"))
        try:
            pairs = zip(file["column_names"].tolist(), file["column_places"].tolist(), strict=True)
            columns = tuple((str(n), int(a), int(b)) for n, (a, b) in pairs)
        except (TypeError, ValueError) as error:
            raise BadInput(f"{str(path)!r}: is damaged; make it again with `gradveil attack`") from error
        return Exhibit(**{name: file[name] for name in _ARRAYS}, columns=columns)


_ARRAYS = ("truth", "guesses", "prior", "iterations", "errors", "prior_errors", "clients")


def exhibit_of(outcome: Outcome, rows: int = ROWS, moments: int = MOMENTS) -> Exhibit:
    """Show the first victims of an attack, each at some moments."""
    count = min(moments, max(len(guess.x) for guess in outcome.reconstructions))
    victims = [_victim(outcome, i, count) for i in range(min(rows, len(outcome.reconstructions)))]
    parts = {name: np.stack([victim[name] for victim in victims]) for name in victims[0]}
    columns = tuple((c.name, c.start, c.stop) for c in outcome.leaks[0].stage.columns)
    return Exhibit(**parts, columns=columns)


def gallery_of(outcome: Outcome) -> bytes:
    """Draw up to six victims as a PNG."""
    r = outcome.record
    return drawn(
        exhibit_of(outcome),
        f"{r.attack} against {r.method} on {r.dataset}, surface {r.surface} ({r.view})",
    )


def _victim(outcome: Outcome, i: int, moments: int) -> dict[str, Any]:
    """Show the first example of a victim: the guess that came nearest to it, at several moments."""
    result, truth, leak = outcome.reconstructions[i], outcome.truths[i].x[0], outcome.leaks[i]
    low, high = limits(leak)
    errors = [_rmse(np.clip(np.nan_to_num(guess), low, high), truth) for guess in result.x[-1]]
    nearest = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
    last = len(result.x) - 1
    at = np.sort(np.resize(frames(len(result.x), moments) if moments > 1 else (last,), moments))
    guess = prior_guess(leak)
    return {
        "truth": truth.astype(np.float32),
        "guesses": np.stack([np.clip(np.nan_to_num(result.x[s][nearest]), low, high) for s in at]).astype(np.float32),
        "prior": guess.astype(np.float32),
        "iterations": result.iterations[at].astype(np.int64),
        "errors": np.float64(errors[nearest]),
        "prior_errors": np.float64(_rmse(guess, truth)),
        "clients": np.int64(outcome.clients[i]),
    }


def _rmse(guess: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean(np.square(guess - truth))))


def drawn(exhibit: Exhibit, title: str) -> bytes:
    """Draw an exhibit of pictures as a PNG."""
    count = exhibit.guesses.shape[1]
    columns = ("truth", *moment_names(count), "prior only")
    return gallery(title, columns, [_strip(exhibit, i) for i in range(len(exhibit.truth))])


def moment_names(count: int) -> tuple[str, ...]:
    """Name the moments of a guess: where it started, some on the way, and what came out."""
    between = tuple(f"moment {i}" for i in range(1, count - 1))
    return ("start", *between, "result") if count > 1 else ("result",)


def _strip(exhibit: Exhibit, i: int) -> Strip:
    captions = [f"iteration {n}" for n in exhibit.iterations[i][:-1]] + [f"RMSE {exhibit.errors[i]:.3f}"]
    images = (exhibit.truth[i], *exhibit.guesses[i], exhibit.prior[i])
    below = ("", *captions, f"RMSE {exhibit.prior_errors[i]:.3f}")
    return Strip(f"client {exhibit.clients[i]}", tuple(np.clip(image, 0, 1) for image in images), below)
