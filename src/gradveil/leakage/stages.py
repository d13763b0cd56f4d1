"""From a scene to the public facts that an attack may use, and whether the law among them is exact."""

import math
from dataclasses import dataclass

import jax
import numpy as np

from gradveil.attacks.leak import Column, Law, Stage
from gradveil.data.dataset import Dataset
from gradveil.federation import leaks
from gradveil.federation.leaks import AGGREGATE, Read, Tap
from gradveil.federation.redraw import Redraw
from gradveil.federation.replay import Replay
from gradveil.leakage.scenes import Scene
from gradveil.privacy.clip import Flat, PerLayer, Unclipped
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Dssgd, Keep, Smallest
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


def stage_of(scene: Scene, read: Read) -> Stage:
    """Gather the public facts of a scene."""
    plan, tap, dataset = scene.plan, scene.tap, scene.dataset
    single = tap.single
    t = min(scene.round, plan.rounds - 1)
    return Stage(
        model=plan.model,
        shape=dataset.shape,
        classes=len(dataset.classes),
        surface=tap.surface,
        view=tap.view,
        batch=1 if single else plan.batch * scene.clients,
        steps=1 if tap.surface is Surface.EXAMPLE else plan.local_steps,
        replay=Replay.of(plan, tap),
        sparse=_prunes(plan.method, tap),
        mu=leaks.gaussian_mu(plan, t, tap, len(jax.tree.leaves(read.params))),
        columns=_columns(dataset),
        law=KnownMechanism(Replay.of(plan, tap)),
        exact=not _approximate(scene, read.gradient),
        own_scale=any(bool(np.isnan(std).any()) for std in jax.tree.leaves(read.std)),
        draw=Redraw(Replay.of(plan, tap)),
        soft=Replay.of(plan, tap).softened(),
    )


@dataclass(frozen=True, slots=True)
class KnownMechanism:
    """The law of what a tap reads, as attacks know it; compared by value, since it decides their programs."""

    replay: Replay

    def __call__(self, params: Tree, clip_state: Tree, sigmas: Array, x: Array, y: Array) -> Law:
        """Return the law of the reading of examples."""
        return Law(*self.replay.law(params, clip_state, sigmas, x, y))


def _prunes(method: Method, tap: Tap) -> bool:
    """Whether coordinates of what is read were held back: at the tap's surface or nearer to the data."""
    if tap.view == AGGREGATE:  # what one client held back another sent
        return False
    nearer = method.surface > tap.surface or (method.surface is tap.surface and tap.view == "released")
    return nearer and not isinstance(method.prune, Keep)


def _approximate(scene: Scene, gradient: Tree) -> bool:
    """Whether the law of a reading leaves something out.

    Later local steps start from parameters that earlier steps noised. Coordinates that were held back at random decide
    how far the others are clipped; and where several units are added up, their law is more than a mean and a variance.
    """
    method, several = scene.plan.method, scene.tap.surface is not Surface.EXAMPLE and scene.plan.local_steps > 1
    if not isinstance(method.prune, Keep | Smallest):
        if scene.tap.view == AGGREGATE:
            return True
        if _prunes(method, scene.tap):
            example = method.surface is Surface.EXAMPLE
            alone = scene.tap.single or scene.plan.batch == 1
            return (example and (several or not alone)) or _may_clip(method, gradient)
    return several and method.acts(Surface.EXAMPLE) and not method.noise.silent


def _may_clip(method: Method, gradient: Tree) -> bool:
    """Whether a unit may exceed the clip: each coordinate is at most `bound` where the rule of pruning clamps it."""
    match method.prune, method.clip:
        case _, Unclipped():
            return False
        case Dssgd(bound=most), PerLayer(c):
            return most * math.sqrt(max(np.size(a) for a in jax.tree.leaves(gradient))) > c
        case Dssgd(bound=most), Flat(c):
            return most * math.sqrt(sum(np.size(a) for a in jax.tree.leaves(gradient))) > c
    return True


def _columns(dataset: Dataset) -> tuple[Column, ...]:
    if dataset.is_image:
        return ()
    if dataset.features:
        return tuple(Column(f.name, f.start, f.stop) for f in dataset.features)
    return tuple(Column(f"feature {i}", i, i + 1) for i in range(dataset.shape[0]))
