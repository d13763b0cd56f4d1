"""The crossing: what happens to a lot at a surface, and what an adversary standing there would read."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.privacy.clip import Facts, Unclipped, joint_norms
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Rule
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class Seen(NamedTuple):
    """What a surface shows, as lots.

    released: what the method lets out there: every noised unit where noise is drawn for EACH, else the one noised mean;
    where the method does not act, the units themselves. raw: the units before anything was done to them, which
    exist in memory (or arrive) even under a method that noises their sum.
    """

    released: Tree
    raw: Tree


class Measures(NamedTuple):
    """Scalars of one crossing for the record: S, C, mean unit norm, and the share of unit layers that were clipped."""

    sensitivity: Array
    bound: Array
    unit_norm: Array
    clipped: Array


class Crossing(NamedTuple):
    """What the system goes on to use (a mean), what was seen, what was measured, and the clip's note."""

    used: Tree
    seen: Seen
    measures: Measures
    note: Tree


def cross(
    surface: Surface, rule: Rule, lot: Tree, mask: Array, expected: float, sigma: Array, memory: Tree, key: Array
) -> Crossing:
    """Let a lot cross a surface: prune -> clip -> mean -> noise, if the rule acts there.

    lot: leaves [n, ...]; mask: [n], 0 for padded slots; expected: the public number of units by which the sum is
    divided (never the realized count, which is private). Guarantees: no unit changes the clipped sum by more than the
    clip's bound; an empty lot is noised like any other.
    """
    if rule.surface is not surface or rule.idle:
        return _pass_through(lot, mask, expected)
    key_prune, key_noise = jax.random.split(key)
    pruned = jax.vmap(rule.prune)(lot, jax.random.split(key_prune, mask.shape[0]))
    entered = rule.clip.enter(pruned, memory)
    before = tree.layer_norms(entered)
    if not isinstance(rule.clip, Unclipped):
        entered, before = _finite(entered, before)
    scales = rule.clip.scales(before, memory) * mask[:, None]
    mean = tree.weighted_sum(scales / expected, entered)
    after = jnp.where(scales > 0, before, 0.0) * scales  # an infinite norm has scale 0, and their product would be NaN
    facts = Facts(before, after, tree.norms(mean), mask)
    bound = rule.clip.bound(memory)
    sensitivity = rule.sensitivity(facts, bound)
    std = sigma * sensitivity * rule.draw.share(expected)
    if rule.draw is Draw.EACH:
        released = tree.add_scaled(tree.weigh(scales, entered), tree.gaussian(key_noise, entered), sigma * sensitivity)
        noised = tree.weighted_sum(jnp.broadcast_to(mask[:, None] / expected, before.shape), released)
        released = rule.clip.leave(released, memory)
        used = rule.clip.leave(noised, memory)
    else:
        used = rule.clip.leave(tree.add_scaled(mean, tree.gaussian(key_noise, mean), std), memory)
        released = tree.lot_of_one(used)
    measures = _measure(before, scales, mask, sensitivity, bound)
    return Crossing(used, Seen(released, lot), measures, rule.clip.note(facts, used, std, memory))


def _finite(lot: Tree, norms: Array) -> tuple[Tree, Array]:
    """Put zero for every unit whose norm is no number.

    No scale could bound it: NaN would pass any clip and any noise, and tell whoever sees it that the unit was there.
    """
    sound = jnp.all(jnp.isfinite(norms), axis=1)

    def kept(leaf: Array) -> Array:
        return jnp.where(sound.reshape((-1,) + (1,) * (leaf.ndim - 1)), leaf, 0.0)

    return jax.tree.map(kept, lot), jnp.where(sound[:, None], norms, 0.0)


def unnoised(rule: Rule, lot: Tree, mask: Array, expected: float, memory: Tree) -> Tree:
    """Give what a lot would show where the rule acts if no noise were drawn: clip -> mean.

    Pruning is left out, since it may be random; whoever compares looks only at coordinates that were let through.
    """
    entered = rule.clip.enter(lot, memory)
    scales = rule.clip.scales(tree.layer_norms(entered), memory) * mask[:, None]
    return rule.clip.leave(tree.weighted_sum(scales / expected, entered), memory)


def _pass_through(lot: Tree, mask: Array, expected: float) -> Crossing:
    norms = tree.layer_norms(lot)
    used = tree.weighted_sum(jnp.broadcast_to(mask[:, None] / expected, norms.shape), lot)
    nothing = jnp.zeros(())
    measures = _measure(norms, jnp.ones_like(norms), mask, nothing, jnp.asarray(jnp.inf))
    return Crossing(used, Seen(lot, lot), measures, ())


def _measure(before: Array, scales: Array, mask: Array, sensitivity: Array, bound: Array) -> Measures:
    total = jnp.maximum(jnp.sum(mask), 1.0)
    unit_norm = jnp.sum(jnp.where(mask > 0, joint_norms(before)[:, 0], 0.0)) / total
    clipped = jnp.sum((scales < 1) * mask[:, None]) / (total * before.shape[1])
    return Measures(*(jnp.asarray(v, jnp.float32) for v in (sensitivity, bound, unit_norm, clipped)))
