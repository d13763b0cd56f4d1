"""Where an attack takes place: on a fresh network as the paper does, or in a run that was trained."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gradveil import keys
from gradveil.data.dataset import Dataset
from gradveil.data.sampling import FixedPass, Whole
from gradveil.engines.cache import keep_compiled_programs
from gradveil.errors import BadInput, quoted
from gradveil.federation import leaks, server
from gradveil.federation.engine import Population
from gradveil.federation.leaks import AGGREGATE, MODEL, Read, Tap
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.plan_data import data_for
from gradveil.federation.rounds import cohort_of
from gradveil.federation.server import State
from gradveil.federation.sum_leaks import read_sum, refuse_unless_fixed
from gradveil.fields import whole
from gradveil.keys import Keys
from gradveil.models.gradients import trained
from gradveil.models.networks import AttackNet, Mlp, Model
from gradveil.runs import recording, store
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.surface import Surface
from gradveil.tree import Tree

Array = np.ndarray[Any, Any]
MOST_READINGS = 10_000
USUAL_VICTIMS = 10
MOST_CLIENTS = 1000
"""Of a fresh network under a method that reads all a client holds: they hold few, so that there are many to attack."""
PAPER_BATCH = {Surface.SERVER: 3, Surface.UPDATE: 3, Surface.EXAMPLE: 1}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """A plan as it is attacked, its data, the tap, who can be read, and how: read(client, r) is the r-th reading.

    In the view `aggregate` cohorts are read in place of clients; a run has one in a round. round: rounds done before
    the first reading, rounds: before each. readings: how often the same examples are read.
    told_labels: whether the adversary is told the labels, as some papers assume. guarantees: of a finished run whose
    model is read.
    """

    plan: Plan
    dataset: Dataset
    tap: Tap
    round: int
    pool: Array
    read: Callable[[int, int], Read]
    trained: bool
    rounds: tuple[int, ...] = (0,)
    readings: int = 1
    told_labels: bool = False
    guarantees: tuple[GuaranteeRecord, ...] = ()

    @property
    def setting(self) -> str:
        """Say how the scene relates to the paper's: only `as the paper` may be compared with its figures."""
        if self.trained:
            return "as trained"
        same = self.plan.local_steps == 1 and self.plan.batch == PAPER_BATCH[self.tap.surface] and self.readings == 1
        same = same and self.tap.view != AGGREGATE
        return "as the paper" if same and self.plan.model == AttackNet() else "fresh network"

    @property
    def clients(self) -> int:
        """How many clients a reading is of: one, or the H of a cohort."""
        return self.plan.honest if self.tap.view == AGGREGATE else 1

    def sigmas(self, r: int) -> Array:
        """Return the noise of the r-th reading in units of S, float32 [L]; a fresh network is in its first rounds."""
        t = self.rounds[r] if self.trained else self.round + r
        scales: Array = self.plan.sigmas()[min(t, self.plan.rounds - 1)].astype(np.float32)
        return scales

    def victims(self, count: int, seed: int) -> Array:
        """Choose clients to attack, each at most once; fewer where there are not as many."""
        random = np.random.default_rng([seed, 0x76696374])
        return np.sort(random.permutation(self.pool)[:count])


def counted(scene: Scene, victims: int | None) -> int:
    """Return how many victims to attack: what was asked for, refused beyond those there are, or ten at most."""
    there = len(scene.pool)
    if victims is None:
        return min(USUAL_VICTIMS, there)
    if whole("victims", victims, most=2**63 - 1) > there:
        raise BadInput(f"victims = {victims}: only {there} clients can be read here")
    return victims


def networks(trained: Model) -> dict[str, Model]:
    """Return the networks that can be attacked by name."""
    return {"attack": AttackNet(), "trained": trained, "mlp": Mlp(hidden=(64,), bias=True)}


def fresh(plan: Plan, dataset: Dataset, tap: Tap, readings: int = 1, planted: Tree | None = None) -> Scene:
    """Set the paper's scene: an untrained network, the first local iteration, every client there to be read.

    Repeated readings are of the same examples at the same parameters, each with fresh noise. planted: the parameters
    that a malicious server sends instead of freshly drawn ones. Preparation rounds are taken as done without effect.
    """
    if tap.view == MODEL:
        raise BadInput("view = 'model': needs a run folder, whose model was trained")
    _refuse_masked(plan)
    refuse_numbers(dataset)
    keep_compiled_programs()
    dataset = data_for(plan, dataset)
    population, roots = Population.of(plan, dataset), Keys.of(plan.seed, secret=False)
    state, first = server.init(plan, dataset.shape, len(dataset.classes), roots), len(plan.preparation)
    if planted is not None:
        state = state._replace(params=planted)

    def read(client: int, r: int) -> Read:
        before = state._replace(round=first + r)
        if tap.view != AGGREGATE:
            return leaks.read(plan, population, before, roots, client, tap)
        key = keys.named(leaks.round_key(before, roots), "cohort", client)
        return read_sum(plan, population, before, key, cohort_of(plan, client, roots))

    return Scene(
        plan=plan,
        dataset=dataset,
        tap=tap,
        round=first,
        pool=np.arange(plan.clients),
        read=read,
        trained=False,
        readings=readings,
    )


def _refuse_masked(plan: Plan) -> None:
    """Refuse to read single updates of a plan that shows none: what there is are noised sums over nodes."""
    if plan.secure_sum is not None:
        raise BadInput(
            "secure_sum: no update of a client can be read, so there is none to attack; `gradveil audit` measures what "
            "the sums tell, and --attack membership --view model what the model does"
        )


def refuse_numbers(dataset: Dataset) -> None:
    """Refuse data with a number to predict: attacks guess classes."""
    if dataset.target_range is not None:
        raise BadInput(f"attack: {dataset.name} has a number to predict, and attacks are for data with classes")


def as_paper(plan: Plan, surface: Surface, batch: int | None, local_steps: int | None) -> Plan:
    """Return the plan that a fresh network is attacked under: one local step on a small batch, taken in order.

    Under a method that sums over all that a client holds, clients hold no more than the batch.
    """
    _refuse_masked(plan)
    size = PAPER_BATCH[surface] if batch is None else batch
    steps = 1 if local_steps is None else local_steps
    if not isinstance(plan.sampling, Whole):
        return replace(plan, batch=size, local_steps=steps, sampling=FixedPass(), **_ALIKE)
    clients = min(plan.clients * plan.client_size // size, MOST_CLIENTS)
    if clients < 1:
        raise BadInput(f"batch = {size}: there are only {plan.clients * plan.client_size} examples")
    cohort = min(plan.cohort, clients)
    sizes = {"client_size": size, "clients": clients, "cohort": cohort}
    return replace(plan, batch=size, local_steps=steps, **sizes, **_ALIKE)  # type: ignore[arg-type]


_ALIKE: dict[str, Any] = {"client_sizes": None, "client_rates": None, "client_weights": None}


def of_run(folder: Path, plan: Plan, dataset: Dataset, tap: Tap, rounds: tuple[int, ...] | None) -> Scene:
    """Set the scene in a run folder, at checkpoints that it kept; several rounds are several readings.

    Readings of a seeded run are made again with its keys; those of a run with secret noise were recorded as it went.
    """
    refuse_numbers(dataset)
    if tap.view == MODEL:
        return _of_model(folder, plan, dataset, tap, rounds)
    _refuse_masked(plan)
    keep_compiled_programs()
    dataset = data_for(plan, dataset)
    population = Population.of(plan, dataset)
    if plan.noise_source is NoiseSource.SECRET:
        store.inspect(folder, plan)
        like = server.init(plan, dataset.shape, len(dataset.classes), Keys.of(plan.seed, secret=False))
        records = recording.load(folder, plan, tap, rounds, like)
        done, pool = records.rounds, records.clients
        read = records.read
    else:
        roots = Keys.of(plan.seed, secret=False)
        states = _states(folder, plan, dataset, roots, rounds)
        done = tuple(s.round for s in states)
        cohorts = [cohort_of(plan, t, roots) for t in done]
        pool = reduce(np.intersect1d, cohorts) if tap.view != AGGREGATE else _one_sum(plan, done, cohorts)

        def read(client: int, r: int) -> Read:
            if tap.view == AGGREGATE:
                return read_sum(plan, population, states[r], leaks.round_key(states[r], roots), cohorts[r])
            return leaks.read(plan, population, states[r], roots, client, tap)

    if not len(pool):
        raise BadInput(f"round = {', '.join(map(str, done))}: no client took part in all of them")
    return Scene(
        plan=plan,
        dataset=dataset,
        tap=tap,
        round=done[0],
        pool=pool,
        read=read,
        trained=True,
        rounds=done,
        readings=len(done),
    )


def _of_model(folder: Path, plan: Plan, dataset: Dataset, tap: Tap, rounds: tuple[int, ...] | None) -> Scene:
    """Set the scene on the model that a run ended with, or had after one round: nothing else is read of it."""
    keep_compiled_programs()
    if rounds is not None and len(rounds) > 1:
        raise BadInput(f"round = {', '.join(map(str, rounds))}: only one model can be read at a time")
    dataset = data_for(plan, dataset)
    population = Population.of(plan, dataset)
    (state,) = _states(folder, plan, dataset, Keys.of(plan.seed, secret=False), rounds)
    result = store.read_result(folder, store.inspect(folder, plan).heads[-1])
    params = server.model_of(plan, state)
    nothing = jax.tree.map(np.zeros_like, jax.tree.map(np.asarray, trained(plan.model, params)))
    pool = np.flatnonzero(state.participations)
    if not len(pool):
        raise BadInput(f"round = {state.round}: no client has taken part yet, so the model has no members")
    return Scene(
        plan=plan,
        dataset=dataset,
        tap=tap,
        round=state.round,
        pool=pool,
        read=lambda client, r: Read(params, state.clip_state, nothing, nothing, population.rows(np.array([client]))),
        trained=True,
        rounds=(state.round,),
        guarantees=() if result is None else result.guarantees,
    )


def _one_sum(plan: Plan, done: tuple[int, ...], cohorts: list[Array]) -> Array:
    """Return the number of the one cohort that is read; refuse rounds of different cohorts."""
    refuse_unless_fixed(plan)
    if any(not np.array_equal(cohort, cohorts[0]) for cohort in cohorts):
        raise BadInput(f"round = {', '.join(map(str, done))}: other clients took part in each; read one round's sum")
    return np.zeros(1, np.int32)


def _states(
    folder: Path, plan: Plan, dataset: Dataset, roots: Keys, rounds: tuple[int, ...] | None
) -> tuple[State, ...]:
    """Find the states after some rounds: the untrained model, the latest, and those that were watched."""
    start = server.init(plan, dataset.shape, len(dataset.classes), roots)
    kept, history = store.by_round(folder / store.CHECKPOINTS), store.inspect(folder, plan)
    if store.exists(folder / store.LATEST):
        latest = store.restore(folder / store.LATEST, start, history)
        kept[latest.round] = folder / store.LATEST
    wanted = rounds if rounds is not None else (max(kept, default=0),)
    for t in wanted:
        if t not in kept and t != 0:
            among = ", ".join(map(str, sorted({0, *kept})))
            raise BadInput(f"round = {t}: the run kept no checkpoint of it, only of {among}; keep more with --watch")
    return tuple(_state(kept[t], t, start, history) if t in kept else start for t in wanted)


def _state(path: Path, t: int, start: State, history: store.History) -> State:
    """Read the state after t rounds; refuse a checkpoint of other rounds under that name."""
    state = store.restore(path, start, history)
    if state.round != t:
        raise BadInput(f"{str(path)!r}: holds the state after round {state.round}, not after round {t}")
    return state


def round_numbers(given: Any) -> tuple[int, ...] | None:
    """Return the rounds that the user named, each once and ascending."""
    if given is None:
        return None
    if not isinstance(given, list | tuple | range | np.ndarray) or not np.ndim(given) or not len(given):
        raise BadInput(f"rounds = {quoted(given)}: must be a list of round numbers, such as (0, 1)")
    return tuple(sorted({whole("rounds", one, 0) for one in given}))
