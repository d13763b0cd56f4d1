"""From a plan or a run to leaks, from leaks to an attack, from an attack to a judged record."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import binomtest

from gradveil import keys
from gradveil.attacks import identify
from gradveil.attacks.found import Attack, Found, mount
from gradveil.attacks.labels import INFERENCES
from gradveil.attacks.leak import Column, Leak, Public, Reading, Stage
from gradveil.attacks.measures import overlap
from gradveil.attacks.score import RULES, Truth, Verdict, identified, judge, summary
from gradveil.data.dataset import Dataset, readable
from gradveil.data.sampling import FixedPass
from gradveil.engines.cache import keep_compiled_programs
from gradveil.errors import BadInput
from gradveil.federation import leaks, server
from gradveil.federation.engine import Population
from gradveil.federation.leaks import Read, Replay, Tap
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import cohort_of
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.models.networks import AttackNet, Mlp, Model
from gradveil.privacy.prune import Keep
from gradveil.surface import Surface

CANDIDATES = (10, 100, 1000)
PUBLIC = 5000
EFFORT = 5000
"""Most examples that are replayed to identify one victim; larger sets of candidates are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where an attack takes place: the plan as it is attacked, its data, the state of the model, and the tap.

    readings: how often the same examples are read, each time with fresh noise. as_paper: one local step on a fresh
    network, the only setting compared with the paper.
    """

    plan: Plan
    dataset: Dataset
    states: tuple[State, ...]
    roots: Keys
    tap: Tap
    as_paper: bool
    readings: int = 1

    @property
    def round(self) -> int:
        """Rounds that were done before the reading."""
        return self.states[0].round


def networks(dataset: Dataset, trained: Model) -> dict[str, Model]:
    """Give the networks that can be attacked by name."""
    return {"attack": AttackNet(), "trained": trained, "mlp": Mlp(hidden=(64,), bias=True)}


def fresh(plan: Plan, dataset: Dataset, tap: Tap, batch: int, readings: int = 1) -> Scene:
    """Set the paper's scene: a fresh network, the first local iteration, one local step on a batch of its own."""
    settled = replace(plan, batch=batch, local_steps=1, sampling=FixedPass())
    roots = Keys.of(plan.seed, secret=False)
    state = server.init(settled, dataset.shape, len(dataset.classes), roots)
    tap = replace(tap, single=tap.surface is Surface.EXAMPLE and batch == 1)
    return Scene(plan=settled, dataset=dataset, states=(state,), roots=roots, tap=tap, as_paper=True, readings=readings)


def victims_of(scene: Scene, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Choose clients to attack, each at most once: of all on a fresh network, of the round's cohort in a run."""
    plan = scene.plan
    pool = np.arange(plan.clients) if scene.as_paper else cohort_of(plan, scene.round, scene.roots)
    if not len(pool):
        raise BadInput(f"round = {scene.round}: no client took part in it")
    random = np.random.default_rng([seed, 0x76696374])
    return np.sort(random.permutation(pool)[:count])


def public_half(dataset: Dataset) -> Public:
    """Give every other example of the split held out for choices, or of the test split: never a client's record."""
    split = dataset.validation if dataset.validation is not None else dataset.test
    rows = np.arange(0, len(split), 2)[:PUBLIC]
    return Public(readable(split.x[rows]), split.y[rows])


def leak_of(scene: Scene, population: Population, client: int, public: Public) -> tuple[Leak, Truth]:
    """Read one client, as often as the scene says; returns what the adversary holds, and the truth."""
    reads = [_read(scene, population, client, r) for r in range(scene.readings)]
    first = reads[0]
    readings = tuple(Reading(r.params, r.memory, r.gradient, r.std) for r in reads)
    return Leak(stage_of(scene, first), readings, public), Truth(first.x, first.y)


def _read(scene: Scene, population: Population, client: int, r: int) -> Read:
    state = scene.states[r % len(scene.states)]
    again = state._replace(round=state.round + r // len(scene.states))
    return leaks.read(scene.plan, population, again, scene.roots, client, scene.tap)


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
        mu=leaks.gaussian_mu(plan, t, tap, read.params, read.memory),
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
    """An attack that took place: the record for JSON, and what the gallery needs."""

    record: dict[str, Any]
    clients: np.ndarray[Any, Any]
    leaks: list[Leak]
    truths: list[Truth]
    founds: list[Found]
    verdicts: list[Verdict]


def attack(
    scene: Scene,
    attack: Attack,
    victims: int,
    rule: str = "default",
    seed: int = 0,
    begun: Callable[[int], None] = lambda total: None,
    done: Callable[[int], None] = lambda victim: None,
) -> Outcome:
    """Attack some victims of a scene and judge what came out."""
    if victims < 1:
        raise BadInput(f"victims = {victims}: must be at least 1")
    keep_compiled_programs()
    began = time.perf_counter()
    population, public = Population.of(scene.plan, scene.dataset), public_half(scene.dataset)
    clients = victims_of(scene, victims, seed)
    begun(len(clients))
    held = [leak_of(scene, population, int(c), public) for c in clients]
    held = [(leak, truth) for leak, truth in held if len(truth.y)]
    if not held:
        raise BadInput("victims: every batch drawn was empty, so there is nothing to attack")
    caught, truths = [leak for leak, _ in held], [truth for _, truth in held]
    founds = mount(attack, caught, seed, done)
    verdicts = [judge(f, t, k, RULES[rule]) for f, t, k in zip(founds, truths, caught, strict=True)]
    record = _facts(scene, attack, rule, seed, len(caught)) | summary(verdicts)
    record |= {
        "labels": label_rules(caught, truths),
        "candidates": identification(caught, truths, seed),
        "seconds": time.perf_counter() - began,
    }
    for one, client in zip(record["per_victim"], clients, strict=False):
        one["client"] = int(client)
    return Outcome(record, clients, caught, truths, founds, verdicts)


def _facts(scene: Scene, attack: Attack, rule: str, seed: int, victims: int) -> dict[str, Any]:
    plan, stage_batch = scene.plan, 1 if scene.tap.single else scene.plan.batch
    return {
        "dataset": plan.dataset,
        "method": plan.method.name,
        "attack": attack.name,
        "surface": int(scene.tap.surface),
        "view": scene.tap.view,
        "setting": "as the paper" if scene.as_paper else "as trained",
        "network": type(plan.model).__name__,
        "round": scene.round,
        "batch": stage_batch,
        "local_steps": 1 if scene.tap.surface is Surface.EXAMPLE else plan.local_steps,
        "readings": scene.readings,
        "sigma": float(plan.sigmas()[min(scene.round, plan.rounds - 1), 0]),
        "rule": rule,
        "rule_meaning": RULES[rule].meaning,
        "seed": seed,
        "victims": victims,
    }


def label_rules(caught: list[Leak], truths: list[Truth]) -> dict[str, float | None]:
    """Give the label accuracy of every rule that infers labels."""

    def accuracy(rule: Any) -> float | None:
        try:
            guesses = [rule(leak, len(truth.y)) for leak, truth in zip(caught, truths, strict=True)]
        except BadInput:
            return None
        classes = caught[0].stage.classes
        return float(np.mean([overlap(g, t.y, classes) for g, t in zip(guesses, truths, strict=True)]))

    return {name: accuracy(rule) for name, rule in INFERENCES.items()}


def identification(caught: list[Leak], truths: list[Truth], seed: int) -> list[dict[str, Any]]:
    """Give, for each number of candidates, how often the true record was picked, beside chance and the bound."""
    rows = []
    for n in CANDIDATES:
        if n * caught[0].stage.examples > EFFORT:
            continue
        random = np.random.default_rng([seed, n])
        answers = [identified(leak, truth, n, random) for leak, truth in zip(caught, truths, strict=True)]
        if None in answers:
            continue
        hits, total, mu = sum(map(bool, answers)), len(answers), caught[0].mu
        low, high = binomtest(hits, total).proportion_ci()
        rows.append(
            {
                "n": n,
                "success": hits / total,
                "success_ci": [float(low), float(high)],
                "chance": 1 / n,
                "bound": None if mu is None else identify.bound(mu, n),
                "mu": mu,
            }
        )
    return rows
