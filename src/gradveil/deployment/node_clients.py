"""Clients that a node holds by name, with as many rows as each has: what it tells of them, and which a plan means."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradveil import codec
from gradveil.data import schema_data
from gradveil.data.dataset import Dataset, Split
from gradveil.data.natural_clients import MOST_NAME
from gradveil.data.partition import Iid
from gradveil.data.schema_text import read_schema
from gradveil.data.sources import load, locate
from gradveil.data.table_schema import Schema
from gradveil.data.unequal import owns
from gradveil.errors import BadInput, quoted
from gradveil.federation.engine import Population
from gradveil.federation.orders import Array
from gradveil.federation.plan import Plan
from gradveil.fields import whole
from gradveil.runs import store

NO_SCHEMA = (
    "schema: a table needs one over Flower, so that nobody encodes it by private rows; `gradveil data schema` drafts it"
)


@dataclass(frozen=True, slots=True)
class ClientList:
    """What a node tells before a run: its clients with their rows, and the digest of the schema that encodes them."""

    clients: dict[str, int]
    schema_sha256: str | None = None

    def __post_init__(self) -> None:
        if not self.clients:
            raise BadInput("clients: at least one is expected")
        for name, rows in self.clients.items():
            if not 0 < len(name) <= MOST_NAME:
                raise BadInput(f"clients: {quoted(name)} must have 1 to {MOST_NAME} characters")
            whole(f"clients.{name}", rows)


def node_data(
    data: str,
    *,
    data_dir: Path | None = None,
    target: str | None = None,
    schema: Path | None = None,
    client: str | None = None,
    client_column: str | None = None,
) -> Dataset:
    """Load the data of a node, whose clients are named where it is one (`client`) or several (`client_column`).

    A table is encoded by its schema alone, and all of its rows are trained on: the server has others to test with.
    """
    if client is not None and client_column is not None:
        raise BadInput("client, client_column: a node is one client or several; give one of the two")
    by = None if schema is None else read_schema(schema)
    place = locate(data)
    if by is not None and os.path.isabs(place):
        dataset = Dataset(**schema_data.fields_of(Path(place), by, target, client_column, test=Path(place)))
        dataset = replace(dataset, test=Split(dataset.test.x[:1].copy(), dataset.test.y[:1].copy()))
    else:
        dataset = load(data, data_dir=data_dir, target=target, schema=by, client_column=client_column)
    if dataset.fitted is not None:
        raise BadInput(NO_SCHEMA)
    if client is None:
        return dataset
    if not dataset.own:
        raise BadInput(f"client = {client!r}: is for data of your own; a node of {dataset.name} has --shard instead")
    return replace(dataset, owners=np.zeros(len(dataset.train), np.int32), client_names=(client,))


def client_list(dataset: Dataset) -> ClientList:
    """Return what a node tells of its clients."""
    if dataset.owners is None:
        raise BadInput("client, client_column: give one, so that the clients of this node have names")
    rows = np.bincount(dataset.owners, minlength=len(dataset.client_names)).tolist()
    return ClientList(dict(zip(dataset.client_names, rows, strict=True)), digest(dataset.schema))


def digest(schema: Schema | None) -> str | None:
    """Return the digest of a schema, None where there is none."""
    return None if schema is None else schema.digest()


def gathered(paths: Sequence[Path], nodes: tuple[str, ...]) -> tuple[dict[str, ClientList], dict[str, Any]]:
    """Read the lists in files called NODE.json; return them by node, and the settings of a plan that follow."""
    lists: dict[str, ClientList] = {}
    for path in paths:
        if path.stem not in nodes or path.stem in lists:
            raise BadInput(f"clients: {str(path)!r} must be called as one of the nodes {', '.join(nodes)}, each once")
        lists[path.stem] = codec.decode(ClientList, store.read_json(path), str(path))
    if missing := [name for name in nodes if name not in lists]:
        raise BadInput(f"clients: the list of {missing[0]} is missing; it makes one with `gradveil federate clients`")
    rows: dict[str, int] = {}
    for node, each in lists.items():
        if twice := rows.keys() & each.clients.keys():
            raise BadInput(f"clients: {min(twice)!r} of {node} is also a client of another node; names must differ")
        rows |= each.clients
    names = tuple(sorted(rows))
    sizes = tuple(rows[name] for name in names)
    given = {"clients": len(names), "client_size": max(sizes), "client_sizes": sizes, "client_names": names}
    return lists, given | {"partition": Iid()}


def holders_of(plan: Plan, lists: dict[str, ClientList], nodes: tuple[str, ...]) -> tuple[int, ...]:
    """Return the number of the node that holds each client of a plan; BadInput if a node has another schema."""
    for node, each in lists.items():
        if each.schema_sha256 != digest(plan.schema):
            raise BadInput(f"schema: that of {node} is not the one of the plan")
    at = {name: nodes.index(node) for node, each in lists.items() for name in each.clients}
    return tuple(at[name] for name in plan.client_names or ())


def unlike(plan: Plan, data: Dataset) -> str | None:
    """Return why a plan does not have the clients of this node; None if it does. Numbers of rows are not told."""
    if data.owners is None:
        return "client_names: this node was started without --client or --client-column" if plan.client_sizes else None
    if plan.client_names is None:
        return "client_names: this node holds clients of its own, and the plan does not name them"
    planned = dict(zip(plan.client_names, plan.sizes, strict=True))
    for name, rows in client_list(data).clients.items():
        if name not in planned:
            return "client_names: the plan does not name a client of this node"
        if planned[name] != rows:
            return f"client_sizes: {name!r} has another number of rows here than in the plan"
    return None


def numbers_here(plan: Plan, data: Dataset) -> Array:
    """Return the numbers in the plan of this node's clients, in their order here."""
    return np.array([(plan.client_names or ()).index(name) for name in data.client_names])


def named_population(plan: Plan, data: Dataset) -> Population:
    """Return the population of a node whose clients are named: each has all of its rows, those of others none."""
    shards = np.full((plan.clients, plan.client_size), -1, np.int32)
    for here, number in enumerate(numbers_here(plan, data)):
        rows = np.flatnonzero(data.owners == here).astype(np.int32)
        shards[number, : len(rows)] = rows
    own = owns(plan.sampling, plan.sizes, plan.batch)
    return Population(data.train.x, data.train.y, shards, 1, own)
