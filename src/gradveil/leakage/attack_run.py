"""From a scene to leaks, from leaks to an attack, from an attack to a judged record."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from scipy.stats import binomtest

from gradveil import codec
from gradveil.attacks import identify
from gradveil.attacks.attack import Attack, Reconstruction, mount
from gradveil.attacks.labels import INFERENCES
from gradveil.attacks.leak import Column, Leak, Public, Reading, Stage
from gradveil.attacks.metrics import overlap
from gradveil.attacks.score import RULES, Truth, VictimScore, identified, judge, summary
from gradveil.data.dataset import Dataset, readable
from gradveil.errors import BadInput
from gradveil.federation import leaks
from gradveil.federation.leaks import Read, Replay
from gradveil.leakage.attack_record import AttackRecord, AttackSettings, CandidateRecord
from gradveil.leakage.scenes import Scene
from gradveil.privacy.prune import Keep
from gradveil.surface import Surface

CANDIDATES = (10, 100, 1000)
PUBLIC = 5000
EFFORT = 5000
"""Most examples that are replayed to identify one victim; larger sets of candidates are left out."""


def public_half(dataset: Dataset) -> Public:
    """Return every other example of the split held out for choices, or of the test split: never a client's record."""
    split = dataset.validation if dataset.validation is not None else dataset.test
    rows = np.arange(0, len(split), 2)[:PUBLIC]
    return Public(readable(split.x[rows]), split.y[rows])


def leak_of(scene: Scene, client: int, public: Public) -> tuple[Leak, Truth]:
    """Read one client, as often as the scene says; returns what the adversary holds, and the truth."""
    reads = [scene.read(client, r) for r in range(scene.readings)]
    readings = tuple(Reading(r.params, *_on_host((r.clip_state, r.gradient, r.std))) for r in reads)
    x, y = (part[reads[0].rows] for part in (scene.dataset.train.x, scene.dataset.train.y))
    told = y if scene.told_labels else None
    return Leak(stage_of(scene, reads[0]), readings, public, told), Truth(readable(x), y)


def _on_host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


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
        batch=1 if single else plan.batch,
        steps=1 if tap.surface is Surface.EXAMPLE else plan.local_steps,
        replay=Replay.of(plan, tap),
        sparse=not isinstance(plan.method.prune, Keep) and plan.method.surface >= tap.surface,
        mu=leaks.gaussian_mu(plan, t, tap, len(jax.tree.leaves(read.params))),
        columns=_columns(dataset),
    )


def _columns(dataset: Dataset) -> tuple[Column, ...]:
    if dataset.is_image:
        return ()
    if dataset.features:
        return tuple(Column(f.name, f.start, f.stop) for f in dataset.features)
    return tuple(Column(f"feature {i}", i, i + 1) for i in range(dataset.shape[0]))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """An attack that took place: its record, and what the gallery needs."""

    record: AttackRecord
    clients: list[int]
    leaks: list[Leak]
    truths: list[Truth]
    founds: list[Reconstruction]
    verdicts: list[VictimScore]


def attack(
    scene: Scene,
    attack: Attack,
    victims: int,
    rule: str = "default",
    seed: int = 0,
    done: Callable[[int], None] = lambda victim: None,
    beside: bool = True,
) -> Outcome:
    """Attack some victims of a scene and judge what came out.

    beside: also try every rule for labels and candidate identification, which read the same leaks on their own.
    """
    if victims < 1:
        raise BadInput(f"victims = {victims}: must be at least 1")
    began = time.perf_counter()
    public = public_half(scene.dataset)
    held = [(c, *leak_of(scene, int(c), public)) for c in scene.victims(victims, seed)]
    held = [(client, leak, truth) for client, leak, truth in held if len(truth.y)]
    if not held:
        raise BadInput("victims: every batch drawn was empty, so there is nothing to attack")
    clients, caught, truths = map(list, zip(*held, strict=True))
    founds = mount(attack, caught, seed, done)
    verdicts = [judge(f, t, k, RULES[rule]) for f, t, k in zip(founds, truths, caught, strict=True)]
    verdicts = [replace(one, client=int(client)) for one, client in zip(verdicts, clients, strict=True)]
    record = AttackRecord(
        **_facts(scene, attack, settings_of(scene, attack, rule, seed, len(caught))),
        **summary(verdicts) | {"per_victim": tuple(verdicts)},
        labels=label_rules(caught, truths) if beside else {},
        candidates=identification(caught, truths, seed) if beside else (),
        seconds=time.perf_counter() - began,
    )
    return Outcome(record, clients, caught, truths, founds, verdicts)


def _facts(scene: Scene, attack: Attack, settings: AttackSettings) -> dict[str, Any]:
    """Say what is attacked and how, by the names of an AttackRecord's fields."""
    plan, rule = scene.plan, settings.rule
    return {
        "dataset": plan.dataset,
        "method": plan.method.name,
        "attack": attack.name,
        "surface": int(scene.tap.surface),
        "view": scene.tap.view,
        "setting": scene.setting,
        "network": type(plan.model).__name__,
        "round": scene.round,
        "batch": 1 if scene.tap.single else plan.batch,
        "local_steps": 1 if scene.tap.surface is Surface.EXAMPLE else plan.local_steps,
        "readings": scene.readings,
        "told_labels": scene.told_labels,
        "sigma": float(plan.sigmas()[min(scene.round, plan.rounds - 1), 0]),
        "rule": rule,
        "rule_meaning": RULES[rule].meaning,
        "seed": settings.seed,
        "victims": settings.victims,
        "settings": settings,
        "settings_sha256": codec.digest(settings),
    }


def settings_of(scene: Scene, attack: Attack, rule: str, seed: int, victims: int) -> AttackSettings:
    """Return all that decides an attack: the whole plan, the attack with its parts, and how it read and judged."""
    return AttackSettings(
        plan=codec.encode(scene.plan),
        attack=repr(attack),
        surface=int(scene.tap.surface),
        view=scene.tap.view,
        single=scene.tap.single,
        trained=scene.trained,
        rounds=scene.rounds,
        readings=scene.readings,
        told_labels=scene.told_labels,
        rule=rule,
        seed=seed,
        victims=victims,
    )


def label_rules(caught: list[Leak], truths: list[Truth]) -> dict[str, float | None]:
    """Return the label accuracy of every rule that infers labels."""

    def accuracy(rule: Any) -> float | None:
        try:
            guesses = [rule(leak, len(truth.y)) for leak, truth in zip(caught, truths, strict=True)]
        except BadInput:
            return None
        classes = caught[0].stage.classes
        return float(np.mean([overlap(g, t.y, classes) for g, t in zip(guesses, truths, strict=True)]))

    return {name: accuracy(rule) for name, rule in INFERENCES.items()}


def identification(caught: list[Leak], truths: list[Truth], seed: int) -> tuple[CandidateRecord, ...]:
    """Give, for each number of candidates, how often the true record was picked, beside chance and the bound."""
    first, random = caught[0], np.random.default_rng([seed, 0x69646E74])
    effort = max(len(truth.y) for truth in truths)
    sizes = [n for n in CANDIDATES if n - 1 <= len(first.public.x) and n * effort <= EFFORT]
    varying = first.stage.steps > 1 and any(len(truth.y) != first.stage.examples for truth in truths)
    if not sizes or varying:  # batches of varying size in several steps cannot be told apart by their number alone
        return ()
    answers = [identified(leak, truth, sizes, random) for leak, truth in zip(caught, truths, strict=True)]
    return tuple(_identified(first, n, [row[i] for row in answers]) for i, n in enumerate(sizes))


def _identified(leak: Leak, n: int, answers: list[bool]) -> CandidateRecord:
    low, high = binomtest(sum(answers), len(answers)).proportion_ci()
    return CandidateRecord(
        n=n,
        success=sum(answers) / len(answers),
        success_ci=(float(low), float(high)),
        chance=1 / n,
        bound=None if leak.mu is None else identify.bound(leak.mu, n),
        mu=leak.mu,
    )
