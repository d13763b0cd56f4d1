"""Rounds of a stage replayed with and without a unit, under the same keys."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import tree
from gradveil.auditing import neighbors
from gradveil.auditing.bounds import noise_limit
from gradveil.auditing.measured import Measured, Pair, measure
from gradveil.auditing.neighbors import Neighbors
from gradveil.auditing.probe import AuditStage, Host
from gradveil.auditing.views import Drawn, Looker, Seen, flat, layers_of
from gradveil.federation.messages import ClientSpec, RoundTask
from gradveil.federation.rounds import round_task
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.models.gradients import trained
from gradveil.privacy.sanitize import cross
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class Views(NamedTuple):
    """One value for each view of a round: its local steps, the client's update, the model."""

    steps: Measured
    update: Measured
    model: Measured


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedRound:
    """A round in a state, with the tasks of several keys, the bound C and the batches that the keys draw.

    often: of `draws` more rounds, how many hold the record in each local step, [L].
    """

    t: int
    state: State
    tasks: tuple[RoundTask, ...]
    bound: float
    held: Drawn
    often: Host
    draws: int


class Replayer:
    """Replays moments of a stage; the programs are compiled for it alone, so that it runs the code of today."""

    def __init__(self, stage: AuditStage, seed: int, confidence: float) -> None:
        self.stage, self._seed, self._confidence, self._look = stage, seed, confidence, Looker(stage)

    def moment(self, t: int, state: State, roots: list[Keys], draws: int = 0) -> ReplayedRound:
        """Return a round in a state, to be replayed with the keys of each root."""
        plan = self.stage.plan
        tasks = tuple(round_task(plan, t, state, one) for one in roots)
        bound = float(plan.method_at(t).clip.bound(state.clip_state if plan.stage(t) is None else ()))
        more = jax.random.split(roots[0].private, draws)
        found = self._look.drawn(tasks[0], jnp.concatenate([jnp.stack([task.key for task in tasks]), more]))
        held = Drawn(*(part[: len(tasks)] for part in found))
        often = np.sum(found.first[len(tasks) :] > 0, axis=0)
        return ReplayedRound(t, state, tasks, bound if np.isfinite(bound) else 1.0, held, often, draws)

    def worlds(self, moment: ReplayedRound, pair: Neighbors) -> tuple[Host, Host]:
        """Return the records of the client with and without the unit."""
        return neighbors.worlds(self.stage, pair, moment.bound, self._seed)

    def releases(self, moment: ReplayedRound, task: RoundTask, pair: Neighbors) -> tuple[Seen, Seen]:
        """Return what is seen of both neighbors [2, ...], with noise and without."""
        both = np.stack(self.worlds(moment, pair))
        return self._look(task, both), self._look(task, both, silent=True)

    def measured(self, moment: ReplayedRound, pair: Neighbors, most: int | None = None) -> Views:
        """Measure a pair in all views, over all keys of the moment or the first few."""
        found = [self.releases(moment, task, pair) for task in moment.tasks[:most]]
        layers = self.layers(moment, found[0][0])
        width = self._width(moment, len(layers))
        return Views(*(self._of_view(found, view, layers, width) for view in range(3)))

    def _of_view(self, found: list[tuple[Seen, Seen]], view: int, layers: Host, scale: Host) -> Measured:
        def rows(silent: int, world: int) -> Host:
            return np.concatenate([np.atleast_2d(both[silent][view][world]) for both in found])

        return measure(Pair(rows(0, 0), rows(0, 1), rows(1, 0), rows(1, 1)), layers, scale, self._confidence)

    def layers(self, moment: ReplayedRound, seen: Seen) -> Host:
        """Return the layer of every coordinate of a view."""
        return layers_of(self.stage, moment.state.params, moment.t, seen.update.shape[-1])

    def _width(self, moment: ReplayedRound, coordinates: int) -> Host:
        """Return the width that a whitening clip gives to every coordinate."""
        plan = self.stage.plan
        return np.ones(coordinates) if plan.stage(moment.t) is not None else _width(self.stage, moment.state)

    def noise(self, moment: ReplayedRound, task: RoundTask) -> Host:
        """Return the noise of the local steps of a client that holds nothing, [L, d]."""
        nobody = np.stack([self.stage.nobody()] * 2)
        noise: Host = self._look(task, nobody).steps[0] - self._look(task, nobody, silent=True).steps[0]
        return noise

    def missing(self, moment: ReplayedRound) -> float:
        """Return the mu of a unit that is in a lot or not, rather than zero in it: what divides the sum must not tell.

        The lot has two units more, loud and against the unit.
        """
        plan, like = self.stage.plan, self._trained(moment.state.params)
        direction = np.random.default_rng(self._seed).normal(size=tree.size(like))
        rows = np.outer([neighbors.LOUD, -3.0, -3.0], moment.bound * direction / np.linalg.norm(direction))
        lot = jax.tree.map(
            lambda *leaves: np.stack(leaves), *(tree.unflat(row, like) for row in jnp.asarray(rows, jnp.float32))
        )
        method = ClientSpec.of(plan, moment.t).method(moment.tasks[0])

        @jax.jit
        def both(key: Array, sigma: Array) -> tuple[Array, Array]:
            def mean(mask: Array, scale: Array) -> Array:
                state = moment.state.clip_state
                return flat(cross(Surface.EXAMPLE, method, lot, mask, plan.batch, scale, state, key).used)

            there, gone = jnp.ones(3), jnp.array([0.0, 1.0, 1.0])
            return mean(there, 0 * sigma) - mean(gone, 0 * sigma), mean(gone, sigma) - mean(gone, 0 * sigma)

        found = [both(task.key, task.sigmas[0]) for task in moment.tasks]
        change, limit = found[0][0], noise_limit(np.stack([noise for _, noise in found]), self._confidence)
        return float(np.linalg.norm(change)) / limit if limit > 0 else math.inf

    def searched(self, moment: ReplayedRound, whole: bool, climbs: int) -> Neighbors:
        """Return the pair that differs most: the best first guess, changed as long as that helps.

        Those that change the size of the noise come before all others. The search uses the key whose batches hold the
        record most often; what it finds is measured with all keys.
        """
        at = int(np.argmax(moment.held.first.sum(axis=1)))
        alone = replace(moment, tasks=(moment.tasks[at],))
        layers = 1 if self.stage.plan.stage(moment.t) else len(jax.tree.leaves(self._trained(moment.state.params)))
        random = np.random.default_rng(self._seed)
        tried = [
            (self._merit(alone, pair, whole), i, pair) for i, pair in enumerate(neighbors.first_guesses(layers, whole))
        ]
        best, _, pair = max(tried)
        for _ in range(climbs):
            changed = neighbors.varied(pair, random)
            if (merit := self._merit(alone, changed, whole)) > best:
                best, pair = merit, changed
        return pair

    def _merit(self, moment: ReplayedRound, pair: Neighbors, whole: bool) -> tuple[bool, float]:
        views = self.measured(moment, pair)
        view = views.update if whole else views.steps
        return view.follows_data, view.larger / max(view.smaller, 1e-30) if view.follows_data else view.mu

    def _trained(self, params: Tree) -> Tree:
        return trained(self.stage.plan.model, params)

    def shows_flaws(self, moment: ReplayedRound) -> bool:
        """Whether a record that is not a number, or too large for one, shows in the client's update."""
        at = int(np.argmax(moment.held.first.sum(axis=1)))
        pairs = neighbors.flawed(len(jax.tree.leaves(self._trained(moment.state.params))))
        seen = [self.releases(moment, moment.tasks[at], pair)[0] for pair in pairs]
        return any(np.isfinite(s.update[1]).all() and not np.isfinite(s.update[0]).all() for s in seen)


def _width(stage: AuditStage, state: State) -> Host:
    """Return by what a clip multiplies each coordinate when it maps a noised mean back."""
    like = trained(stage.plan.model, state.params)
    ones, none = (jax.tree.map(lambda a, v=value: jnp.full_like(a, v), like) for value in (1.0, 0.0))
    clip = stage.plan.method.clip
    mapped = [
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(clip.inverse(x, state.clip_state))])
        for x in (ones, none)
    ]
    width: Host = np.abs(mapped[0] - mapped[1]).astype(np.float64)
    return width
