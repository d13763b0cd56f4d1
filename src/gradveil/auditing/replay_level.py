"""Level one: neighbors replayed with the same keys. Deterministic but for the size of the noise, which is estimated."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.auditing import neighbors
from gradveil.auditing.bounds import at_least
from gradveil.auditing.measured import Measured, correlation
from gradveil.auditing.neighbors import Neighbors
from gradveil.auditing.probe import AuditStage, Host
from gradveil.auditing.replayer import ReplayedRound, Replayer, Views
from gradveil.data.sampling import Poisson
from gradveil.federation import server
from gradveil.federation.client import ClientData, train
from gradveil.federation.messages import ClientSpec, Report, Reports, RoundTask
from gradveil.federation.rounds import round_task
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.surface import Surface

FALSE_ALARMS = 1e-6
"""The probability that this level refutes what is true."""


@dataclass(frozen=True, slots=True)
class ReplayEffort:
    """How much is replayed: keys of each round, steps of the search, draws of batches, rounds that adapt a clip."""

    keys: int = 10
    climbs: int = 16
    draws: int = 400
    adapting: int = 4
    longest: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFinding:
    """What round t shows of one record, and of all records of a client (`whole`).

    rates: the probability that a local step holds the record, [L]. one: of the record; the mus of update and model are
    those of one inclusion. reused: |r| of noise that two releases share, 0 if they share none. flawed: whether a record
    that is not a number shows.
    """

    t: int
    rates: tuple[float, ...]
    one: Views
    whole: Views
    reused: float
    flawed: bool
    searched: Neighbors


def replay(stage: AuditStage, effort: ReplayEffort, seed: int) -> list[RoundFinding]:
    """Replay each preparation, then the first round of gradients in several states of the clip, and the last round."""
    plan, roots = stage.plan, [Keys.of((seed + i) % 2**32, False) for i in range(effort.keys)]
    replayer = Replayer(stage, seed, 1 - FALSE_ALARMS / 100)
    skipped, start = len(plan.preparation), stage.start(roots[0])
    states = [start, *_adapted(stage, start, effort.adapting, roots[0])]
    kinds = [(t, start) for t in range(skipped)] + [(skipped, state) for state in states]
    kinds += [(plan.rounds - 1, states[-1])] if plan.rounds - 1 > skipped else []
    worst: dict[bool, tuple[Neighbors, Neighbors]] = {}
    findings = []
    for t, state in kinds:
        moment, prepares = replayer.moment(t, state, roots, effort.draws), plan.stage(t) is not None
        if prepares or False not in worst:
            worst[prepares] = _searched(replayer, moment, effort.climbs)
        findings.append(_finding(replayer, moment, worst[prepares], roots[0]))
    return findings


def _searched(replayer: Replayer, moment: ReplayedRound, climbs: int) -> tuple[Neighbors, Neighbors]:
    """Return the worst pair for one record and for all of a client; the same where the unit is the client."""
    everyone = replayer.searched(moment, True, climbs // 2)
    by_record = replayer.stage.plan.method.surface is Surface.EXAMPLE
    return replayer.searched(moment, False, climbs) if by_record else everyone, everyone


def _finding(
    replayer: Replayer, moment: ReplayedRound, worst: tuple[Neighbors, Neighbors], roots: Keys
) -> RoundFinding:
    plan = replayer.stage.plan
    by_record = plan.method.surface is Surface.EXAMPLE
    whole = one = replayer.measured(moment, worst[1])
    rates = (1.0,) * moment.batches.first.shape[1]
    if by_record:
        one, whole = replayer.measured(moment, worst[0]), _per_inclusion(whole, moment.batches.sizes)
        rates = _rates(replayer.stage, moment, one.steps)
        one = _per_inclusion(one, moment.batches.first)
    return RoundFinding(
        t=moment.t,
        rates=rates,
        one=one,
        whole=whole,
        reused=_reused(replayer, moment, roots),
        flawed=by_record and replayer.shows_flaws(moment),
        searched=worst[0],
    )


def _per_inclusion(views: Views, counts: Host) -> Views:
    """Divide mu of updates and models by the inclusions that their keys drew; [n, L] counts."""
    each, steps = counts.sum(axis=1), counts.ravel()
    return Views(*(_divided(view, by) for view, by in zip(views, (steps, each, each), strict=True)))


def _divided(view: Measured, counts: Host) -> Measured:
    mus = tuple(mu / max(int(count), 1) for mu, count in zip(view.mus, counts, strict=True))
    return Measured(mus, view.larger, view.smaller, view.coordinates)


def _rates(stage: AuditStage, moment: ReplayedRound, steps: Measured) -> tuple[float, ...]:
    """Return the rate of the plan for every local step, or what the draws show where they exceed it.

    A record that has an effect on a step whose batch does not hold it is there for certain.
    """
    plan = stage.plan
    planned = plan.batch / plan.client_size if isinstance(plan.sampling, Poisson) else None
    shows = np.asarray(steps.mus).reshape(moment.batches.first.shape) > 0
    outside = (shows & (moment.batches.first == 0)).any(axis=0)
    return tuple(
        1.0 if leaks else _rate(int(n), moment.draws, planned) for n, leaks in zip(moment.often, outside, strict=True)
    )


def _rate(count: int, draws: int, planned: float | None) -> float:
    if count == draws and (planned is None or planned == 1):
        return 1.0
    lower_bound = at_least(count, draws, 1 - FALSE_ALARMS / 100)
    return lower_bound if planned is None else max(planned, lower_bound)


def _reused(replayer: Replayer, moment: ReplayedRound, roots: Keys) -> float:
    """Return the largest correlation of noise between rounds and between local steps, where it is no chance."""
    plan = replayer.stage.plan
    if not float(np.max(plan.sigmas()[moment.t])) > 0 or moment.t + 1 >= plan.rounds:
        return 0.0
    here = replayer.noise(moment, moment.tasks[0])
    if plan.stage(moment.t) is not plan.stage(moment.t + 1):
        return 0.0
    later = replayer.noise(moment, round_task(plan, moment.t + 1, moment.state, roots))
    pairs = [(here, later), *([(here[0], here[1])] if len(here) > 1 else [])]
    return max(correlation(a, b, FALSE_ALARMS / 100) for a, b in pairs)


def _adapted(stage: AuditStage, start: State, rounds: int, roots: Keys) -> list[State]:
    """Return the states of a clip that learned from loud units, and from faint ones; none if it has no state."""
    if not jax.tree.leaves(start.clip_state):
        return []
    return [_after(stage, start, rounds, norm, roots) for norm in (neighbors.LOUD, 1e-3)]


def _after(stage: AuditStage, state: State, rounds: int, norm: float, roots: Keys) -> State:
    """Train some rounds on units of one norm; only the clip's state is kept."""
    plan, spec = stage.plan, ClientSpec.of(stage.plan)
    x = jnp.full((plan.client_size, stage.size), norm / math.sqrt(stage.size))
    labels, start = jnp.asarray(stage.labels()), state

    @jax.jit
    def reported(task: RoundTask) -> Report:
        def one(number: jax.Array) -> Report:
            return train(spec, task, ClientData(x, labels, jnp.arange(spec.size), number))

        reports: Report = jax.lax.map(one, jnp.arange(plan.cohort))
        return reports

    first = len(plan.preparation)
    for t in range(first, min(plan.rounds, first + rounds)):
        task = round_task(plan, t, state, roots)
        state, _ = server.absorb(plan, task, state._replace(round=t), Reports(np.arange(plan.cohort), *reported(task)))
    return start._replace(clip_state=state.clip_state)
