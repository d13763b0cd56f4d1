"""From a scene to leaks, from leaks to an attack, from an attack to a judged record."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from gradveil import codec, own_code
from gradveil.attacks.attack import Attack, Reconstruction, mount
from gradveil.attacks.labels import INFERENCES
from gradveil.attacks.leak import Leak, Public, Reading
from gradveil.attacks.membership import Membership
from gradveil.attacks.metrics import overlap
from gradveil.attacks.score import RULES, Truth, VictimScore, judge, summary
from gradveil.data.dataset import Dataset, readable
from gradveil.errors import BadInput
from gradveil.federation.leaks import MODEL
from gradveil.leakage.attack_record import AttackRecord, AttackSettings
from gradveil.leakage.identification import identification
from gradveil.leakage.membership_record import MembershipRecord
from gradveil.leakage.membership_trials import from_model, from_readings
from gradveil.leakage.scenes import Scene
from gradveil.leakage.stages import stage_of
from gradveil.leakage.verdict import finds_nearest, verdict
from gradveil.surface import Surface

PUBLIC = 5000


def public_half(dataset: Dataset) -> Public:
    """Return every other example of the split held out for choices, or of the test split: never a client's record."""
    return Public(*_every_other(dataset, 0))


def _every_other(dataset: Dataset, first: int) -> tuple[Any, Any]:
    """Return examples of the split held out for choices, or of the test split, that no client holds."""
    split = dataset.validation if dataset.validation is not None else dataset.test
    rows = np.arange(first, len(split), 2)[:PUBLIC]
    return readable(split.x[rows]), split.y[rows]


def leak_of(scene: Scene, client: int, public: Public) -> tuple[Leak, Truth]:
    """Read one client, as often as the scene says; returns what the adversary holds, and the truth."""
    reads = [scene.read(client, r) for r in range(scene.readings)]
    readings = tuple(
        Reading(
            params=read.params,
            clip_state=_on_host(read.clip_state),
            gradient=_on_host(read.gradient),
            std=_on_host(read.std),
            sigmas=scene.sigmas(r),
            slots=_on_host(read.slots),
        )
        for r, read in enumerate(reads)
    )
    x, y = (part[reads[0].rows] for part in (scene.dataset.train.x, scene.dataset.train.y))
    labels = y if scene.told_labels else None
    return Leak(stage_of(scene, reads[0]), readings, public, labels), Truth(readable(x), y)


def _on_host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """An attack that took place: its record, and what the gallery needs."""

    record: AttackRecord
    clients: list[int]
    leaks: list[Leak]
    truths: list[Truth]
    reconstructions: list[Reconstruction]
    verdicts: list[VictimScore]


def attack(
    scene: Scene,
    attack: Attack,
    victims: int,
    rule: str = "default",
    seed: int = 0,
    done: Callable[[int], None] = lambda victim: None,
    identify: bool = True,
    cores: int | None = None,
    told_apart: Callable[[int], None] = lambda victim: None,
) -> Outcome:
    """Attack some victims of a scene, on as many cores as given or on all, and judge what came out.

    identify: also try every rule for labels and candidate identification, which read the same leaks on their own.
    done, told_apart: called after the attack on each victim, and after its identification.
    """
    began = time.perf_counter()
    public = public_half(scene.dataset)
    clients, caught, truths = _caught(scene, attack, victims, seed, public)
    infers = isinstance(attack, Membership)
    reconstructions = mount(attack, caught, seed, (lambda victim: None) if infers else done, cores)
    verdicts = [judge(f, t, k, RULES[rule]) for f, t, k in zip(reconstructions, truths, caught, strict=True)]
    verdicts = [replace(one, client=int(client)) for one, client in zip(verdicts, clients, strict=True)]
    totals = summary(verdicts) | {"per_victim": tuple(verdicts)}
    membership = _membership(scene, attack, caught, truths, seed, done) if isinstance(attack, Membership) else None
    identify = identify and not infers
    candidates = identification(caught, truths, seed, told_apart) if identify else ()
    near = not infers and finds_nearest(verdicts, max(len(truth.y) for truth in truths), len(public.x))
    judged = verdict(totals["gain_ci"], totals["prior_rmse"], candidates, near, totals["not_fitted"], membership)
    record = AttackRecord(
        **_facts(scene, attack, settings_of(scene, attack, rule, seed, len(caught))),
        **totals,
        verdict=judged,
        resilient=judged == "nothing-found",
        labels=label_rules(caught, truths) if identify else {},
        candidates=candidates,
        seconds=time.perf_counter() - began,
        membership=membership,
    )
    return Outcome(record, clients, caught, truths, reconstructions, verdicts)


def _caught(
    scene: Scene, attack: Attack, victims: int, seed: int, public: Public
) -> tuple[list[int], list[Leak], list[Truth]]:
    """Read some victims; return their numbers, what the adversary holds of each, and the truth."""
    if victims < 1:
        raise BadInput(f"victims = {victims}: must be at least 1")
    if scene.tap.view == MODEL and not isinstance(attack, Membership):
        raise BadInput(f"view = 'model': the attack {attack.name} reads gradients; the model is read by membership")
    captures = [(int(c), *leak_of(scene, int(c), public)) for c in scene.victims(victims, seed)]
    captures = [(client, leak, truth) for client, leak, truth in captures if len(truth.y)]
    if not captures:
        raise BadInput("victims: every batch drawn was empty, so there is nothing to attack")
    clients, caught, truths = map(list, zip(*captures, strict=True))
    return clients, caught, truths


def _membership(
    scene: Scene, attack: Membership, caught: list[Leak], truths: list[Truth], seed: int, done: Callable[[int], None]
) -> MembershipRecord:
    """Tell members from others, by their readings or by the trained model."""
    if scene.tap.view != MODEL:
        by_client = scene.plan.method.surface is not Surface.EXAMPLE
        return from_readings(attack, caught, truths, by_client, seed, done)
    held_out = Truth(*_every_other(scene.dataset, 1))
    record = from_model(attack, caught, truths, held_out, scene.guarantees, seed)
    for victim in range(len(caught)):
        done(victim)
    return record


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
        "batch": 1 if scene.tap.single else plan.batch * scene.clients,
        "local_steps": 1 if scene.tap.surface is Surface.EXAMPLE else plan.local_steps,
        "cohort": scene.clients,
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


def _described(attack: Attack) -> str:
    """Return the attack with its parts; of a user's own, with the digest of its source."""
    if type(attack).__module__.startswith("gradveil."):
        return repr(attack)
    return f"{attack!r} source_sha256={own_code.source_sha256(attack)}"


def settings_of(scene: Scene, attack: Attack, rule: str, seed: int, victims: int) -> AttackSettings:
    """Return all that decides an attack: the whole plan, the attack with its parts, and how it read and judged."""
    return AttackSettings(
        plan=codec.encode(scene.plan),
        attack=_described(attack),
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
