"""Calls of a function of somebody's own: its releases as vectors, or one sentence that says why there are none."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from gradveil.auditing.probe import Host
from gradveil.errors import BadInput, quoted

Mechanism = Callable[[Host, int], Any]


class Lots(NamedTuple):
    """Units with the one that is compared and without it, [n, d] and [n - 1, d]; or releases of both, [m, k] each."""

    present: Host
    absent: Host


class Called(NamedTuple):
    """A function by the name that the user gave it."""

    name: str
    mechanism: Mechanism

    def releases(self, lots: Lots, seeds: Iterable[int], later: int = 0) -> Lots:
        """Call it for both lots with each seed; those of the lot without the unit are greater by `later`."""
        seeds = list(seeds)
        present = [self._release(lots.present, seed) for seed in seeds]
        absent = [self._release(lots.absent, seed + later) for seed in seeds]
        sizes = {len(one): None for one in (*present, *absent)}
        if len(sizes) > 1 or 0 in sizes:
            many = " and ".join(map(str, sizes))
            raise BadInput(f"mechanism = {self.name}: releases have {many} numbers, and must agree and have one")
        if not np.isfinite(absent).all():
            raise BadInput(f"mechanism = {self.name}: a release without the unit is not finite, so it cannot be judged")
        return Lots(np.array(present), np.array(absent))

    def _release(self, units: Host, seed: int) -> Host:
        """Call the function with a copy of the units; returns its release as one vector."""
        try:
            answer = self.mechanism(units.copy(), seed)
        except (Exception, SystemExit) as error:
            raise BadInput(f"mechanism = {self.name}: raised {described(error)}") from error
        try:
            released = np.asarray(answer)
        except Exception:  # a ragged list, or whatever an object of the user's own does when it is read as an array
            released = np.asarray(None)
        if not np.can_cast(released.dtype, np.float64, "same_kind"):
            raise BadInput(f"mechanism = {self.name}: returned {quoted(answer)}, and must return an array of numbers")
        return released.astype(np.float64).ravel()


def described(error: BaseException) -> str:
    """Return the kind of an error and what it says, on one line."""
    return f"{type(error).__name__} ({quoted(str(error))})"
