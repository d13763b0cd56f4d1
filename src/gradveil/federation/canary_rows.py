"""Canaries in a run over nodes: records of nobody, each in or out by a coin, whose places nodes lend.

Canary i is one of client i mod N. It takes the place of a record there whether it is in or out, so that no real record
depends on a coin. Its gradient is one coordinate of a vector that nodes hold beside the model (`Marked`), which only
shows in their updates: the server splits it off, and trains the same model as without canaries.
"""

from dataclasses import replace

import numpy as np

from gradveil.data.dataset import readable
from gradveil.errors import BadInput
from gradveil.federation.engine import Array, Population
from gradveil.federation.messages import Reports
from gradveil.federation.plan import Plan
from gradveil.models.marked import ABSENT, Marked
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer, Unclipped
from gradveil.surface import Surface

FEWEST, MOST = 8, 100_000
"""With fewer canaries nothing can be told; more would fill the memory of nodes."""
_COINS = 0x636F696E  # keeps this stream apart from others of the same seed


def coins(plan: Plan, canaries: int) -> Array:
    """Return which canaries are in, bool [m]: by the plan's seed, which is no secret, as no record of anyone is."""
    tossed: Array = np.random.default_rng([plan.seed, _COINS]).integers(0, 2, canaries).astype(bool)
    return tossed


def clients_with(plan: Plan, canaries: int) -> Array:
    """Return the client of each canary, int [m]."""
    return np.arange(canaries) % plan.clients


def refuse_unfit(plan: Plan, canaries: int) -> None:
    """Refuse canaries where a record has no coordinate of its own, or where they would be most of a client."""
    most = min(MOST, plan.clients * (plan.client_size // 2))
    if not FEWEST <= canaries <= most:
        raise BadInput(f"canaries = {canaries}: must be between {FEWEST} and {most}, half of all records at most")
    if plan.method.surface is not Surface.EXAMPLE or isinstance(plan.model, SoftmaxRegression) or plan.client_sizes:
        raise BadInput("canaries: work only for networks, where examples are noised and clients have one size")
    if plan.secure_sum is not None:
        raise BadInput("canaries: need updates of single clients, which a secure sum hides; leave one of the two out")
    if not isinstance(plan.method.clip, Unclipped | PerLayer | Flat | OwnNorm):
        raise BadInput("canaries: a clip that learns would adapt to them; use a constant one")


def marked_plan(plan: Plan, shape: tuple[int, ...], canaries: int) -> Plan:
    """Return the plan as nodes execute it: the model with a coordinate for each canary. shape: of an example."""
    return replace(plan, model=Marked(plan.model, shape, canaries), features=None)


def inserted(plan: Plan, held: Population, canaries: int, here: Array) -> Population:
    """Return a population with marks behind its records, and canaries in place of records of the clients `here`."""
    rows, owners = np.asarray(readable(held.x), np.float32).reshape(len(held.x), -1), clients_with(plan, canaries)
    local = np.flatnonzero(np.isin(owners, here))
    x = np.zeros((len(rows) + len(local), rows.shape[1] + 1), np.float32)
    x[: len(rows), :-1] = rows
    x[len(rows) :, -1] = np.where(coins(plan, canaries)[local], 1.0 + local, ABSENT)
    y = np.concatenate([held.y, np.ones(len(local), held.y.dtype)])
    shards = held.shards.copy()
    shards[owners[local], local // plan.clients] = len(rows) + np.arange(len(local))
    return replace(held, x=x, y=y, shards=shards)


def split_off(plan: Plan, reports: Reports, canaries: int) -> Reports:
    """Return reports without the canaries' vector, and in their remarks what it showed of each canary.

    client: its coordinate in the update of its own client, 0 if that did not reply; everyone: in the sum of updates.
    """
    *update, vector = reports.update
    place = {int(client): i for i, client in enumerate(reports.clients)}
    owners = clients_with(plan, canaries)
    client = [float(vector[place[c], i]) if c in place else 0.0 for i, c in enumerate(owners.tolist())]
    shown = {"client": client, "everyone": np.sum(vector, axis=0, dtype=np.float64).tolist()}
    return reports._replace(update=tuple(update), remarks=reports.remarks | {"canaries": shown})
