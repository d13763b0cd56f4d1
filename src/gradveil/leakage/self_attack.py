"""A run attacks itself: the first round that it trained, read at a surface, with a small budget."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gradveil.attacks.zoo import MAP
from gradveil.data.dataset import Dataset
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import Plan
from gradveil.leakage import scenes
from gradveil.leakage.attack_run import Outcome, attack
from gradveil.leakage.scenes import Scene
from gradveil.surface import Surface

VICTIMS = 6
SMALL = replace(MAP, iterations=10)
"""The strongest of the picture attacks, since it knows the noise and falls back on the public mean."""


def attacked_round(plan: Plan) -> int:
    """Return the first round with gradients, when they say most."""
    return len(plan.preparation)


def attack_surface(
    folder: Path, plan: Plan, dataset: Dataset, surface: Surface, done: Callable[[int], None] = lambda victim: None
) -> tuple[Scene, Outcome]:
    """Attack what a surface released in the first round with gradients."""
    scene = scenes.of_run(folder, plan, dataset, Tap.at(plan, surface, "released"), (attacked_round(plan),))
    # One core: to compile for a second one takes longer than the ten iterations.
    return scene, attack(scene, SMALL, VICTIMS, seed=plan.seed, done=done, cores=1)
