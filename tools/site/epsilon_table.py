"""The table behind the site's epsilon calculator: `python -m tools.site.epsilon_table`, some minutes on one core.

Every entry is the epsilon that `gradveil account` (or, for fed-sdp, the ledger of a plan) gives at one point of a grid,
rounded up to four digits. The page shows entries and never a value in between. fed-sum needs no table: nothing of it
is sampled, so its page has the closed form.
"""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradveil import names
from gradveil.accounting.accountant import guarantees
from gradveil.accounting.release import Ledger, Release
from gradveil.calibration.query import Query

FILE = Path(__file__).parents[2] / "docs" / "_static" / "epsilons.js"
BEGIN = "const EPSILONS = "
DELTA, ADJACENCY, DIGITS = 1e-5, "add-remove", 4
SIGMAS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
THREATS = ("central", "central-visible", "aggregate", "server", "type2-secret", "type2-known")
"""Those that protect what the method noises: one example of fed-cdp, one client of fed-sdp."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A quantity that the page lets one choose, what it is called there, and its values."""

    name: str
    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """The axes of a method, the last running fastest, and the ledger of a point."""

    axes: tuple[Axis, ...]
    ledger: Callable[..., Ledger]

    def points(self) -> list[dict[str, float]]:
        """Return every point of the grid, in the order of the table."""
        names = [axis.name for axis in self.axes]
        return [dict(zip(names, at, strict=True)) for at in itertools.product(*(axis.values for axis in self.axes))]


def examples(sigma: float, q: float, rounds: float, local_steps: float, client_q: float) -> Ledger:
    """Return what fed-cdp releases with Poisson batches and a joint (flat) clipping bound."""
    steps = int(local_steps)
    return Query(sigma=sigma, rate=q, rounds=int(rounds), local_steps=steps, client_rate=client_q).ledger()


def clients(sigma: float, client_q: float, rounds: float) -> Ledger:
    """Return what fed-sdp releases with Poisson cohorts and a joint clipping bound: noised at the server."""
    one = Release(
        round=0,
        surface=0,
        unit="client",
        part="sum",
        sigmas=(sigma,),
        ratio=1.0,
        layers=1,
        draw="sum",
        expected=1.0,
        capacity=1,
        client_size=1,
        share=False,
        example_sampling="whole",
        example_rate=1.0,
        touches=1,
        cohort_sampling="poisson" if client_q < 1 else "fixed",
        cohort_rate=client_q,
        cohort=1,
        copies=1,
        data_dependent=False,
    )
    return Ledger((one,) * int(rounds), int(rounds))


SIGMA = Axis("sigma", "noise scale sigma", SIGMAS)
ROUNDS = Axis("rounds", "rounds", (10, 30, 100, 300, 1000))
GRIDS = {
    "fed-cdp": Grid(
        (
            SIGMA,
            Axis("q", "share of a client's records in a batch, q", (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)),
            ROUNDS,
            Axis("local_steps", "local steps a round", (1, 10, 100)),
            Axis("client_q", "share of clients in a round", (0.1, 1.0)),
        ),
        examples,
    ),
    "fed-sdp": Grid(
        (
            SIGMA,
            Axis("client_q", "share of clients in a round", (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)),
            ROUNDS,
        ),
        clients,
    ),
}


def rounded_up(epsilon: float) -> float | None:
    """Return an epsilon with four digits, never less than it is; None for infinity.

    >>> rounded_up(1.82834), rounded_up(0.0), rounded_up(float("inf"))
    (1.829, 0.0, None)
    """
    if not math.isfinite(epsilon):
        return None
    if epsilon == 0:
        return 0.0
    unit = DIGITS - 1 - math.floor(math.log10(epsilon))
    return round(math.ceil(epsilon * 10.0**unit * (1 - 1e-9)) / 10.0**unit, max(unit, 0))


def entries(grid: Grid, point: dict[str, float]) -> dict[str, float | None]:
    """Return the epsilon against each adversary at one point."""
    found = guarantees(grid.ledger(**point), DELTA, ADJACENCY, THREATS)
    return {one.threat_model: rounded_up(one.epsilon) for one in found}


def table() -> dict[str, Any]:
    """Compute every entry."""
    return {
        "delta": DELTA,
        "adjacency": ADJACENCY,
        "threats": {threat: names.THREATS[threat] for threat in THREATS},
        "methods": {name: _of(grid) for name, grid in GRIDS.items()},
    }


def _of(grid: Grid) -> dict[str, Any]:
    rows = [entries(grid, point) for point in grid.points()]
    return {
        "axes": [{"name": a.name, "label": a.label, "values": list(a.values)} for a in grid.axes],
        "epsilons": {threat: [row[threat] for row in rows] for threat in THREATS},
    }


def known() -> dict[str, Any]:
    """Return the table that the site has."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8").removeprefix(BEGIN).rstrip(";\n"))
    return found


if __name__ == "__main__":
    FILE.write_text(f"{BEGIN}{json.dumps(table(), separators=(',', ':'))};\n", encoding="utf-8")
