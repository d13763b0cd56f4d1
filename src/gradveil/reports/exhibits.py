"""What an attack has to show: of some victims the truth, the guess at several moments, and a guess that reads nothing.

Kept beside the attack's record in a file that only its owner can read, since it holds true records.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.errors import BadInput
from gradveil.runs import store

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
        places = np.array([place for _, *place in self.columns], np.int32).reshape(-1, 2)
        store.write(path, store.npz({**arrays, "column_names": names, "column_places": places}), owner_only=True)

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
