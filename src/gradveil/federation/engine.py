"""What an engine is: it trains a cohort, on this machine or on many. The loop of rounds knows nothing more of it."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gradveil.data.dataset import Dataset
from gradveil.data.partition import Iid, copies
from gradveil.data.unequal import Own, owns
from gradveil.errors import BadInput
from gradveil.federation.footprint import refuse_beyond_memory
from gradveil.federation.messages import Reports, RoundTask
from gradveil.federation.plan import Plan

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Who holds what: one pool of examples and, for every client, the rows that it holds, int32 [N, size].

    `copies` is how often the most copied record occurs over all shards; above 1, its privacy losses add up. `own` has
    [N] of each where clients hold different numbers of rows; what is left of their shards is padding, -1.
    """

    x: Array
    y: Array
    shards: Array
    copies: int
    own: Own | None = None

    def of_clients(self, numbers: Any) -> Own | None:
        """Return what the batches of some clients depend on, None where all hold as many rows."""
        return None if self.own is None else Own(*(part[numbers] for part in self.own))

    def rows(self, numbers: Array) -> Array:
        """Return all rows that some clients hold."""
        rows: Array = self.shards[numbers].ravel()
        return rows[rows >= 0]

    @staticmethod
    def of(plan: Plan, dataset: Dataset) -> "Population":
        """Split the training examples among the plan's clients, by the plan's seed."""
        if plan.client_size > len(dataset.train):
            raise BadInput(
                f"client_size = {plan.client_size}: {dataset.name} has only {len(dataset.train)} training examples"
            )
        refuse_beyond_memory(plan, dataset)
        _refuse_by_class(plan, dataset)
        if plan.client_sizes:
            return _named(plan, dataset)
        random = np.random.default_rng([plan.seed, _PARTITION])
        shards = plan.partition.shards(dataset.train.y, plan.clients, plan.client_size, random)
        return Population(dataset.train.x, dataset.train.y, shards, copies(shards, len(dataset.train)))


def _refuse_by_class(plan: Plan, dataset: Dataset) -> None:
    """Refuse what is about classes where a number is to be predicted, and what is about a number where classes are."""
    if dataset.target_range is None:
        if plan.target_rmse is not None:
            raise BadInput("target_rmse: classes are predicted here, which have an accuracy; use target_accuracy")
        return
    if not isinstance(plan.partition, Iid):
        raise BadInput("partition: deals records by their class, and a number is predicted here; use iid")
    if plan.target_accuracy is not None:
        raise BadInput(
            "target_accuracy: a number is predicted here, which has an RMSE and no accuracy; use target_rmse"
        )


def _named(plan: Plan, dataset: Dataset) -> Population:
    """Return the clients that the data name, each with all of its rows."""
    owners = np.zeros(0, np.int32) if dataset.owners is None else dataset.owners
    if tuple(np.bincount(owners, minlength=plan.clients).tolist()) != plan.sizes:
        raise BadInput(f"client_sizes: {dataset.name} has other clients than the plan, or clients of other sizes")
    shards = np.full((plan.clients, plan.client_size), -1, np.int32)
    order = np.argsort(owners, kind="stable").astype(np.int32)
    for shard, rows in zip(shards, np.split(order, np.cumsum(plan.sizes)[:-1]), strict=True):
        shard[: len(rows)] = rows
    own = owns(plan.sampling, plan.sizes, plan.batch, plan.client_rates)
    return Population(dataset.train.x, dataset.train.y, shards, 1, own)


_PARTITION = 0x70617274  # keeps this stream apart from others of the same seed


class TooFew(Exception):
    """Fewer clients replied than the plan's minimum: the round is repeated with new keys."""


class Engine(Protocol):
    """Trains a cohort: on this machine one client after another, mapped over its cores, or on many machines."""

    @property
    def clients_per_call(self) -> int:
        """How many clients are trained in parallel; fewer take as long."""

    def train(self, task: RoundTask, cohort: Array) -> Reports:
        """Let every client of the cohort (numbers, any order) do the task; reports are sorted by client.

        Raises TooFew if clients can fail to reply and too many did.
        """
