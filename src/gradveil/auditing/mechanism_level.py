"""Level two: thousands of simulated runs with a worst unit and without it, told apart by their releases alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import keys
from gradveil.auditing.absence import NOBODY
from gradveil.auditing.neighbors import Neighbors
from gradveil.auditing.probe import AuditStage, Host
from gradveil.auditing.replayer import ReplayedRound, Replayer
from gradveil.auditing.telling import Scores
from gradveil.auditing.views import VICTIM, of_cohort, of_model
from gradveil.data.sampling import Poisson
from gradveil.federation.client import ClientData, batch_indices
from gradveil.federation.messages import ClientSpec, RoundTask
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.surface import Surface
from gradveil.tree import Array

STATISTICS = ("secret", "known", "energy")


@dataclass(frozen=True, slots=True)
class MechanismEffort:
    """How many rounds of a client are simulated in all, at most how many runs of each neighbor, in chunks.

    longest: coordinates of a tensor at most. A run has as many rounds as the plan, or fewer so that there are `least`.
    """

    releases: int = 400_000
    most: int = 100_000
    least: int = 600
    longest: int = 8
    chunk: int = 100


class Attendance(NamedTuple):
    """The rounds of a run, preparations among them, and how likely the unit's client is in each; None: in all."""

    rounds: int
    rate: float | None = None


class Weighing(NamedTuple):
    """What turns a release into numbers: weights and widths of its coordinates, mu of one inclusion, the rate.

    cohort: how likely the client is drawn; None where it is for certain.
    """

    weights: Array
    widths: Array
    mu: Array
    rate: float | None
    cohort: float | None


def simulate(
    replayer: Replayer,
    pair: Neighbors,
    sees: str,
    effort: MechanismEffort,
    seed: int,
    attends: Attendance | None = None,
) -> dict[str, Scores]:
    """Return the scores of simulated runs of the replayer's stage by statistic.

    `secret` and `known`: the logarithm of the likelihood ratio, for those who do not know which batches hold the unit
    and for those who do; where clients are drawn, for those who do not know the cohorts and for those who do. `energy`:
    the sum of squares, which shows noise that follows the unit. A run is all rounds of gradients that the client
    attends (those of the plan unless told), in the first state of the clip; the other records contribute nothing.
    """
    stage, pair = replayer.stage, replace(pair, others=0.0)
    plan = stage.plan
    first, clients = len(plan.preparation), plan.cohort if sees == "model" else 1
    attends = attends or Attendance(plan.rounds)
    rounds = min(max(1, attends.rounds - first), max(1, effort.releases // (2 * clients * effort.least)))
    runs = int(np.clip(effort.releases // (2 * clients * rounds), effort.chunk, effort.most)) // effort.chunk
    root = Keys.of(seed, False)
    moment = replayer.moment(first, stage.start(root), [Keys.of((seed + i) % 2**32, False) for i in range(24)])
    weighing = _weighing(replayer, moment, pair, sees)._replace(cohort=attends.rate)
    sigmas = jnp.asarray(plan.sigmas()[first : first + rounds], jnp.float32)
    by_world, names, gone = [], ("present", "absent"), (NOBODY, replayer.absent(pair))
    simulation = _program(replayer, ClientSpec.of(plan, first), sees, pair.whole, gone[1])
    program = partial(simulation, weighing, sigmas, moment.tasks[0])
    for name, who, world in zip(names, gone, replayer.worlds(moment, pair), strict=True):
        roots = jax.random.split(keys.named(root.private, name), runs * effort.chunk).reshape(runs, effort.chunk)
        x = jnp.asarray(world)
        by_world.append(np.concatenate([np.asarray(program(chunk, x, who), np.float64) for chunk in roots]))
    return {name: Scores(by_world[0][:, i], by_world[1][:, i]) for i, name in enumerate(STATISTICS)}


def _program(replayer: Replayer, spec: ClientSpec, sees: str, whole: bool, missing: int) -> Callable[..., Array]:
    """Return the compiled simulation of a chunk of runs; a replayer keeps it, so that other seeds need no other."""
    kept = replayer.simulations
    if (spec, sees, whole) not in kept:
        one = partial(_run, replayer.stage, spec, sees, whole, missing)
        kept[spec, sees, whole] = jax.jit(jax.vmap(one, in_axes=(None, None, None, 0, None, None)))
    return kept[spec, sees, whole]


def _run(
    stage: AuditStage,
    spec: ClientSpec,
    sees: str,
    whole: bool,
    missing: int,
    weighing: Weighing,
    sigmas: Array,
    task: RoundTask,
    key: Array,
    x: Array,
    gone: Array,
) -> Array:
    """Simulate one run and score it, [3]. missing: who is gone while the client is not drawn."""
    labels, nobody = jnp.asarray(stage.labels()), jnp.asarray(stage.nobody())

    def round_of(total: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
        t, sigma = given
        now = task._replace(key=keys.named(key, "round", t), sigmas=sigma)
        drawn = True if weighing.cohort is None else jax.random.bernoulli(keys.named(now.key, "drawn"), weighing.cohort)
        held, who = jnp.where(drawn, x, nobody), jnp.where(drawn, gone, missing)
        cohort = of_cohort(spec, now, held[None], who[None], labels, nobody, sees == "model")
        seen = cohort.update[0]
        if sees == "model":
            seen = of_model(spec, now, jax.tree.map(lambda a: a[0], cohort.victim), cohort.others, who)
        return total + _scored(seen, _inclusions(stage.plan, spec, now, whole), drawn, weighing), None

    total, _ = jax.lax.scan(round_of, jnp.zeros(3), (jnp.arange(len(sigmas)), sigmas))
    return total


def _scored(seen: Array, inclusions: Array, drawn: Array | bool, weighing: Weighing) -> Array:
    """Return the statistics of one release: with p = <release, weights>, p - mu^2 / 2 is the log-likelihood ratio."""
    projected = jnp.vdot(seen, weighing.weights)
    known = inclusions * projected - jnp.square(inclusions * weighing.mu) / 2
    secret = projected - weighing.mu**2 / 2
    if weighing.rate is not None:
        secret = _mixed(secret, weighing.rate)
    if weighing.cohort is not None:
        secret, known = _mixed(secret, weighing.cohort), jnp.where(drawn, secret, 0.0)
    scores = jnp.stack([secret, known, jnp.sum(jnp.square(seen / weighing.widths))])
    return jnp.nan_to_num(scores, nan=1e30, posinf=1e30, neginf=-1e30)


def _mixed(logarithm: Array, rate: float) -> Array:
    """Return the log-likelihood ratio of what happens at a rate, in secret: ln(1 - rate + rate e^l)."""
    return jnp.logaddexp(jnp.log1p(-rate), jnp.log(rate) + logarithm)


def _inclusions(plan: Plan, spec: ClientSpec, task: RoundTask, whole: bool) -> Array:
    """Count how often a round's batches hold the unit; a client noised as one unit is there once."""
    if plan.method.surface is not Surface.EXAMPLE:
        return jnp.ones(())
    data = ClientData(jnp.zeros((1, 1)), jnp.zeros(1), jnp.arange(spec.size), jnp.asarray(VICTIM))

    def count(step: Array) -> Array:
        indices = batch_indices(spec, task, data, step)
        real = jnp.arange(indices.positions.shape[0]) < indices.real
        return jnp.sum(real if whole else real & (indices.positions == 0))

    return jnp.sum(jax.vmap(count)(jnp.arange(spec.steps))).astype(jnp.float32)


def _weighing(replayer: Replayer, moment: ReplayedRound, pair: Neighbors, sees: str) -> Weighing:
    """Measure how far one inclusion moves a release, and the width of its noise in every layer."""
    stage = replayer.stage
    counts = (moment.batches.sizes if pair.whole else moment.batches.first).sum(axis=1)
    by_record = stage.plan.method.surface is Surface.EXAMPLE
    at = int(np.argmax(counts)) if by_record else 0
    releases = [replayer.releases(moment, task, pair) for task in moment.tasks]
    silent: Host = getattr(releases[at][1], sees)
    change = (silent[0] - silent[1]) / (max(int(counts[at]), 1) if by_record else 1)
    noise = np.concatenate([getattr(loud, sees) - getattr(quiet, sees) for loud, quiet in releases])
    layers = replayer.layers(moment, releases[0][0])
    widths = np.array([np.sqrt(np.mean(noise[:, layers == m] ** 2)) for m in range(layers.max() + 1)])[layers]
    widths = np.nan_to_num(np.maximum(widths, 1e-9 * max(1e-9, float(np.abs(np.nan_to_num(change)).max()))), nan=1.0)
    change = np.nan_to_num(change, nan=1.0, posinf=1.0, neginf=-1.0)
    mu = float(np.linalg.norm(change / widths))
    return Weighing(
        jnp.asarray(change / widths**2), jnp.asarray(widths), jnp.asarray(mu), _rate(stage.plan, pair.whole), None
    )


def _rate(plan: Plan, whole: bool) -> float | None:
    """Return the rate of Poisson batches where a round is one of them and the unit is one record."""
    rate = plan.batch / plan.client_size
    sampled = isinstance(plan.sampling, Poisson) and plan.local_steps == 1 and rate < 1 and not whole
    return rate if sampled and plan.method.surface is Surface.EXAMPLE else None
