"""The package as a library: load data, make a plan, train it, use the model."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gradveil import store
from gradveil.attacks.found import Attack
from gradveil.attacks.score import RULES
from gradveil.attacks.zoo import ATTACKS
from gradveil.data import sources
from gradveil.data.dataset import Dataset, readable
from gradveil.errors import BadInput
from gradveil.experiments import attacking, runner, scenes
from gradveil.experiments.runner import Options
from gradveil.experiments.settings import fitted, resolve
from gradveil.federation import server
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.methods import METHODS
from gradveil.privacy.method import Method
from gradveil.surface import Surface
from gradveil.tree import Tree

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A trained model: its plan, its parameters, its classes and the result that its run reported."""

    plan: Plan
    params: Tree
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    result: dict[str, Any]

    def scores(self, x: Any) -> Array:
        """Give the logits [n, classes] of examples [n, ...] as the dataset stores them."""
        examples = np.asarray(x)
        if examples.shape[1:] != self.shape:
            raise BadInput(f"x: examples of shape {self.shape} are expected, not {examples.shape[1:]}")
        return np.asarray(jax.vmap(self.plan.model.apply, in_axes=(None, 0))(self.params, readable(examples)))

    def predict(self, x: Any) -> Array:
        """Give the number of the likeliest class of each example; `classes` names them."""
        likeliest: Array = np.argmax(self.scores(x), axis=1)
        return likeliest


def dataset(name: str, **options: Any) -> Dataset:
    """Load a dataset by name or path; options as `gradveil.data.sources.load`."""
    return sources.load(name, **options)


def plan(name: str, method: Method | str = "fed-cdp", **changes: Any) -> Plan:
    """Make a plan for a dataset: its preset, with your changes to any field of Plan.

    >>> plan("digits", "non-private", rounds=3).rounds
    3
    """
    if isinstance(method, str) and method not in METHODS:
        raise BadInput(f"method = {method!r}: must be one of {', '.join(METHODS)}")
    loading = {key: changes[key] for key in ("target", "train_all") if key in changes}
    place = str(Path(name).resolve()) if Path(name).exists() else name
    data = sources.load(place, **loading)
    chosen = fitted(METHODS[method].value, data) if isinstance(method, str) else method
    return resolve(place, data, chosen, changes)


def train(plan: Plan, out: str | Path | None = None, resume: bool = False) -> Trained:
    """Train a plan in a run folder (a temporary one if none is named) and give the model.

    resume: go on with the run that the folder holds; a plan with other `rounds`, and nothing else, trains on.
    """
    data = sources.load(plan.dataset, target=plan.target, train_all=plan.train_all)
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            return _train(plan, data, Path(folder) / "run", resume)
    return _train(plan, data, Path(out), resume)


def _train(plan: Plan, data: Dataset, folder: Path, resume: bool) -> Trained:
    run = runner.prepare(plan, data, folder, Options(resume=resume))
    for _ in runner.proceed(run):
        pass
    result = runner.conclude(run)
    return Trained(plan, run.state.params, data.classes, data.shape, result)


def attack(
    target: Plan | str | Path,
    surface: Surface | int = Surface.EXAMPLE,
    attack: Attack | str = "cpl",
    victims: int = 10,
    *,
    view: str = "released",
    rounds: tuple[int, ...] | None = None,
    readings: int = 1,
    rule: str = "default",
    seed: int = 0,
) -> dict[str, Any]:
    """Attack a run folder (what was trained, after some rounds), or a plan as it stands with its network untrained.

    Gives the record that `gradveil attack --json` prints. A plan in the paper's setting comes from
    `gradveil.experiments.scenes.as_paper`; an attack is a name or a value of `gradveil.attacks.zoo`.
    """
    if isinstance(attack, str) and attack not in ATTACKS:
        raise BadInput(f"attack = {attack!r}: must be one of {', '.join(ATTACKS)}")
    if rule not in RULES:
        raise BadInput(f"rule = {rule!r}: must be one of {', '.join(RULES)}")
    chosen = ATTACKS[attack].value if isinstance(attack, str) else attack
    plan = target if isinstance(target, Plan) else store.read_plan(Path(target))
    data = sources.load(plan.dataset, target=plan.target, train_all=plan.train_all)
    tap = Tap.at(plan, Surface(surface), view)
    if isinstance(target, Plan):
        scene = scenes.fresh(plan, data, tap, readings)
    else:
        scene = scenes.of_run(Path(target), plan, data, tap, rounds)
    return attacking.attack(scene, chosen, victims, rule, seed).record


def load(folder: str | Path) -> Trained:
    """Load the model of a finished run; refuses parameters that are not those of its result."""
    folder = Path(folder)
    if not store.there(folder / store.RESULT):
        raise BadInput(f"{str(folder)!r}: holds no finished run")
    plan, data = store.read_plan(folder), store.read_data(folder)
    result = store.read_result(folder, store.inspect(folder, plan).heads[-1]) or {}
    shape, classes = tuple(data["shape"]), tuple(data["classes"])
    like = jax.eval_shape(lambda: server.init(plan, shape, len(classes), Keys.of(0, False)).params)
    params = store.read_params(folder, like, result["params_sha256"])
    return Trained(plan, params, classes, shape, result)
