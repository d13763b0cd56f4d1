"""All that crosses the network in a round: the server's order to a node, and the node's reply."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradveil.data.dataset import Dataset
from gradveil.federation.plan import Plan

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Order:
    """Train these clients of the plan from these weights.

    clients: int [k], those of the cohort that the node holds. node, nodes: the node is number `node` of `nodes` and
    holds every client whose number modulo `nodes` is `node`, or those that the plan names and it knows. params,
    clip_state: leaves of the model and of the clip's state. shape, classes, columns: of the examples that the model is
    made for. key: the round's key if the plan's noise is seeded; a node draws its own otherwise. canaries: how many are
    in the run, over all nodes.
    """

    plan: Plan
    t: int
    clients: Array
    node: int
    nodes: int
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    params: tuple[Array, ...]
    clip_state: tuple[Array, ...]
    key: tuple[int, int] | None
    canaries: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class NodeReply:
    """What a node sends back: the leaves of its clients' updates and of their clip statistics, each [k, ...]."""

    update: tuple[Array, ...]
    statistics: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node refuses an order."""

    reason: str


def columns_of(dataset: Dataset) -> tuple[str, ...]:
    """Return the columns of a table by name and width; pictures have none."""
    return tuple(f"{f.name} ({f.stop - f.start})" for f in dataset.features)


def clients_of(node: int, nodes: int, clients: Array, holders: tuple[int, ...] | None = None) -> Array:
    """Return those of the clients that node number `node` of `nodes` holds.

    holders: the node of each client of the plan where nodes hold clients of their own; by turns otherwise.
    """
    at = clients % nodes if holders is None else np.asarray(holders)[clients]
    on_node: Array = clients[at == node]
    return on_node
