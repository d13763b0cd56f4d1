"""Canaries in a real training run: records that are in it or not by a coin, and what the run shows of each.

A *gradient canary* is a record whose gradient is one coordinate that no other record moves, as large as the clip
allows. A *canary record* is a real record with a wrong label. A *canary client* has records that are all one gradient
canary, so that its update is one coordinate that no other client moves.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.auditing.probe import Host
from gradveil.data.dataset import Dataset, readable
from gradveil.engines.vectorized import Vectorized
from gradveil.federation import server
from gradveil.federation.canary_rows import coins
from gradveil.federation.engine import Population
from gradveil.federation.messages import Reports, RoundTask
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.models.gradients import loss
from gradveil.models.marked import ABSENT, Marked
from gradveil.runs.run_records import RoundLine
from gradveil.tree import Tree


class CanaryScores(NamedTuple):
    """What one run shows of its canaries, [m] each: whether each was in, and scores that are higher if it was.

    update: from the updates of the canary's client, model: from the final model.
    """

    inside: Host
    update: Host
    model: Host


def heard_over_nodes(plan: Plan, lines: Sequence[RoundLine]) -> CanaryScores | None:
    """Return what a finished run over nodes showed of its canaries; None if it had none.

    update: from the updates of the canary's client; model: from the sum of all updates, as the model has it.
    """
    shown = [line.canaries for line in lines if line.canaries is not None]
    if not shown:
        return None
    update, model = (-np.sum([getattr(one, name) for one in shown], axis=0) for name in ("client", "everyone"))
    return CanaryScores(coins(plan, len(update)), update, model)


class _Listening:
    """An engine that adds up what the updates of each canary's client show of it."""

    def __init__(self, engine: Vectorized, owners: Host) -> None:
        self._engine, self._owners, self.heard = engine, owners, np.zeros(len(owners))

    @property
    def clients_per_call(self) -> int:
        """As the engine's."""
        return self._engine.clients_per_call

    def train(self, task: RoundTask, cohort: Host) -> Reports:
        """Train the cohort and listen."""
        reports = self._engine.train(task, cohort)
        seen = {int(client): np.asarray(reports.update[-1][i]) for i, client in enumerate(reports.clients)}
        for i, owner in enumerate(self._owners):
            if int(owner) in seen:
                self.heard[i] -= seen[int(owner)][i]
        return reports


def trained_with_gradients(plan: Plan, dataset: Dataset, canaries: int, seed: int) -> CanaryScores:
    """Train a run with gradient canaries."""
    population, chosen, inside = _drawn(plan, dataset, canaries, seed)
    population.x[chosen, -1] = np.where(inside, 1.0 + np.arange(canaries), ABSENT)
    population.y[chosen] = 1
    owners = np.array([np.argmax((population.shards == row).any(axis=1)) for row in chosen])
    marked = replace(plan, model=Marked(plan.model, dataset.shape, canaries), features=None)
    engine = _Listening(Vectorized(marked, population), owners)
    params = _trained(marked, population, engine, dataset, seed)
    return CanaryScores(inside, engine.heard, -np.asarray(params[-1]))


def trained_with_records(plan: Plan, dataset: Dataset, canaries: int, seed: int) -> CanaryScores:
    """Train a run with canary records; both scores are the final model's, minus its loss at each of them."""
    population, chosen, inside = _drawn(plan, dataset, canaries, seed)
    classes, random = len(dataset.classes), np.random.default_rng(seed + 1)
    wrong = (population.y[chosen] + random.integers(1, classes, canaries)) % classes
    population.y[chosen] = wrong
    x = population.x[chosen].copy()
    population.x[chosen, -1] = np.where(inside, 0.0, ABSENT)
    marked = replace(plan, model=Marked(plan.model, dataset.shape, 1), features=None)
    params = _trained(marked, population, Vectorized(marked, population), dataset, seed)
    losses = jax.vmap(lambda a, b: loss(marked.model, params, a, b))(jnp.asarray(x), jnp.asarray(wrong))
    return CanaryScores(inside, -np.asarray(losses), -np.asarray(losses))


def trained_with_clients(plan: Plan, dataset: Dataset, canaries: int, seed: int) -> CanaryScores:
    """Train a run with canary clients, who join those of the plan; cohorts grow as the clients do, rounded down.

    A canary that is out is a client of nobody's records: it sends an update of zeros.
    """
    original, coins = Population.of(plan, dataset), np.random.default_rng(seed).integers(0, 2, canaries).astype(bool)
    own = _marked(original)
    rows = np.zeros((canaries, own.shape[1]), np.float32)
    rows[:, -1] = np.where(coins, 1.0 + np.arange(canaries), ABSENT)
    shards = np.repeat(len(own) + np.arange(canaries)[:, None], plan.client_size, axis=1)
    population = replace(
        original,
        x=np.vstack([own, rows]),
        y=np.concatenate([original.y, np.ones(canaries, original.y.dtype)]),
        shards=np.vstack([original.shards, shards.astype(original.shards.dtype)]),
    )
    clients = plan.clients + canaries
    grown = replace(plan, clients=clients, cohort=max(1, plan.cohort * clients // plan.clients), features=None)
    marked = replace(grown, model=Marked(plan.model, dataset.shape, canaries))
    engine = _Listening(Vectorized(marked, population), plan.clients + np.arange(canaries))
    params = _trained(marked, population, engine, dataset, seed)
    return CanaryScores(coins, engine.heard, -np.asarray(params[-1]))


def _drawn(plan: Plan, dataset: Dataset, canaries: int, seed: int) -> tuple[Population, Host, Host]:
    """Return the population with a mark behind every record, the rows that become canaries, and their coins."""
    random, population = np.random.default_rng(seed), Population.of(plan, dataset)
    chosen = random.choice(np.unique(population.shards), canaries, replace=False)
    return (
        replace(population, x=_marked(population), y=population.y.copy()),
        chosen,
        random.integers(0, 2, canaries).astype(bool),
    )


def _marked(population: Population) -> Host:
    """Return the records with a mark of 0 behind each, [n, d + 1]."""
    rows = np.asarray(readable(population.x), np.float32).reshape(len(population.x), -1)
    return np.hstack([rows, np.zeros((len(rows), 1), np.float32)])


def _trained(plan: Plan, population: Population, engine: Any, dataset: Dataset, seed: int) -> Tree:
    roots = Keys.of(seed, False)
    state = server.init(plan, (population.x.shape[1],), len(dataset.classes), roots)
    for done in rounds(plan, engine, state, roots):
        state = done.state
    return server.model_of(plan, state)
