"""Rounds of a stage replayed with and without a unit, under the same keys."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.auditing import neighbors
from gradveil.auditing.absence import CLIENT, NOBODY
from gradveil.auditing.measured import Measured, Pair, measure
from gradveil.auditing.neighbors import Neighbors
from gradveil.auditing.probe import AuditStage, Host
from gradveil.auditing.views import Drawn, Looker, Seen, layers_of
from gradveil.federation.messages import RoundTask
from gradveil.federation.rounds import round_task
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.models.gradients import trained
from gradveil.privacy.draw import Draw
from gradveil.surface import Surface
from gradveil.tree import Tree

NOISED = {Surface.EXAMPLE: "steps", Surface.UPDATE: "update", Surface.SERVER: "model"}
"""The view that shows the noise of a surface release by release."""


class Views(NamedTuple):
    """One value for each view of a round: its local steps, the client's update, the model."""

    steps: Measured
    update: Measured
    model: Measured


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedRound:
    """A round in a state, with the tasks of several keys, the bound C and the batches that the keys draw.

    often: of `draws` more rounds, how many hold the record in each local step, [L]. more: their noise beside gradients.
    """

    t: int
    state: State
    tasks: tuple[RoundTask, ...]
    bound: float
    batches: Drawn
    often: Host
    draws: int
    more: Seen | None


class Replayer:
    """Replays moments of a stage; the programs are compiled for it alone, so that it runs the code of today."""

    def __init__(self, stage: AuditStage, seed: int, confidence: float) -> None:
        self.stage, self._seed, self._confidence, self._look = stage, seed, confidence, Looker(stage)
        self.simulations: dict[Any, Callable[..., Any]] = {}

    def moment(self, t: int, state: State, roots: list[Keys], draws: int = 0) -> ReplayedRound:
        """Return a round in a state, to be replayed with the keys of each root."""
        plan = self.stage.plan
        tasks = tuple(round_task(plan, t, state, one) for one in roots)
        bound = float(plan.method_at(t).clip.bound(state.clip_state if plan.stage(t) is None else ()))
        more = jax.random.split(roots[0].private, draws)
        drawn = self._look.drawn(tasks[0], jnp.concatenate([jnp.stack([task.key for task in tasks]), more]))
        batches = Drawn(*(part[: len(tasks)] for part in drawn))
        more_noise = self._look.more_noise(tasks[0], more) if draws else None
        often = np.sum(drawn.first[len(tasks) :] > 0, axis=0)
        return ReplayedRound(t, state, tasks, bound if np.isfinite(bound) else 1.0, batches, often, draws, more_noise)

    def worlds(self, moment: ReplayedRound, pair: Neighbors) -> tuple[Host, Host]:
        """Return the records of the client with and without the unit."""
        return neighbors.worlds(self.stage, pair, moment.bound, self._seed)

    def absent(self, pair: Neighbors) -> int:
        """Return who is gone in the world without the unit; where each unit is noised, a record of zeros stays there.

        Batches have a fixed size then, and what the noise of an empty place would tell is nobody's record.
        """
        return NOBODY if self.stage.plan.method.draw is Draw.EACH else pair.absent

    def releases(self, moment: ReplayedRound, task: RoundTask, pair: Neighbors) -> tuple[Seen, Seen]:
        """Return what is seen of both neighbors [2, ...], with noise and without."""
        both, gone = np.stack(self.worlds(moment, pair)), np.array([NOBODY, self.absent(pair)])
        return self._look(task, both, gone), self._look(task, both, gone, silent=True)

    def measured(self, moment: ReplayedRound, pair: Neighbors, most: int | None = None) -> Views:
        """Measure a pair in all views, over all keys of the moment or the first few."""
        both, gone = np.stack(self.worlds(moment, pair)), np.array([NOBODY, self.absent(pair)])
        return self.compared(replace(moment, tasks=moment.tasks[:most]), both, gone)

    def compared(self, moment: ReplayedRound, both: Host, gone: Host) -> Views:
        """Measure two worlds [2, size, d] in all views, over all keys of the moment; gone: who is in each, [2]."""
        releases = [(self._look(task, both, gone), self._look(task, both, gone, silent=True)) for task in moment.tasks]
        layers = self.layers(moment, releases[0][0])
        width = self._width(moment, len(layers))
        return Views(*(self._of_view(releases, view, layers, width, moment.more) for view in range(3)))

    def _of_view(
        self, releases: list[tuple[Seen, Seen]], view: int, layers: Host, scale: Host, more: Seen | None
    ) -> Measured:
        def rows(silent: int, world: int) -> Host:
            return np.concatenate([np.atleast_2d(both[silent][view][world]) for both in releases])

        pair = Pair(rows(0, 0), rows(0, 1), rows(1, 0), rows(1, 1), np.zeros((0, 0)) if more is None else more[view])
        return measure(pair, layers, scale, self._confidence)

    def layers(self, moment: ReplayedRound, seen: Seen) -> Host:
        """Return the layer of every coordinate of a view."""
        return layers_of(self.stage, moment.state.params, moment.t, seen.update.shape[-1])

    def _width(self, moment: ReplayedRound, coordinates: int) -> Host:
        """Return the width that a whitening clip gives to every coordinate."""
        width = np.ones(coordinates)
        if self.stage.plan.stage(moment.t) is None:
            own = _width(self.stage, moment.state)
            width[: len(own)] = own
        return width

    def noise(self, moment: ReplayedRound, task: RoundTask) -> Host:
        """Return the noise while a client holds nothing: of its local steps [L, d], its update or the model [1, d].

        Of the parameters alone, in units that make it equally large everywhere, so that it can be compared.
        """
        nobody, gone = np.stack([self.stage.nobody()] * 2), np.array([NOBODY, CLIENT])
        loud, still = (self._look(task, nobody, gone, silent=silent) for silent in (False, True))
        view = NOISED[self.stage.plan.method.surface]
        noise = np.atleast_2d(getattr(loud, view)[1] - getattr(still, view)[1])
        size = noise.shape[1] - self._look.numbers_beside(task)
        return noise[:, :size] / self._width(moment, size)

    def searched(self, moment: ReplayedRound, whole: bool, climbs: int) -> Neighbors:
        """Return the pair that differs most: the best first guess, changed as long as that helps.

        Those that change the size of the noise come before all others. The search uses the key whose batches hold the
        record most often; what it finds is measured with all keys.
        """
        at = int(np.argmax(moment.batches.first.sum(axis=1)))
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
        surface = self.stage.plan.method.surface
        view: Measured = views.update if whole and surface is Surface.EXAMPLE else getattr(views, NOISED[surface])
        return view.follows_data, view.larger / max(view.smaller, 1e-30) if view.follows_data else view.mu

    def _trained(self, params: Tree) -> Tree:
        return trained(self.stage.plan.model, params)

    def shows_flaws(self, moment: ReplayedRound) -> bool:
        """Whether a record that is not a number, or too large for one, shows in the client's update."""
        at = int(np.argmax(moment.batches.first.sum(axis=1)))
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
