"""A grammar of calls to the library: a small call that works, of which one or two values are of a wrong kind."""

import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_world import World

import gradveil
from gradveil import methods
from gradveil.models.networks import Cnn, Mlp
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.prune import Dssgd, Smallest
from gradveil.privacy.schedule import Constant, Cyclic, Exponential, Linear, Staircase
from gradveil.privacy.sensitivity import ClipBound, Fixed

ODD: tuple[Any, ...] = (
    None, 1.5, -1, 0, True, 10**20, 2**31, float("nan"), float("inf"), 1e-320, "x", "", "\x00", b"bytes", [], {}, (),
    {"kind": "Mlp"}, object(), object, len, np.array([1, 2]), np.float64("nan"), np.int64(-1), np.array(2.5), 1j,
    Path("missing"), "secret", "poisson", "iid", "3", [1], ("a",), {1, 2},
)  # fmt: skip
TINY = {"clients": 4, "cohort": 2, "client_size": 20, "batch": 2, "local_steps": 1, "rounds": 1}
FIELDS = (*gradveil.Plan.__dataclass_fields__, "lr", "sigma", "clip", "decay", "sigma_end", "draw", "sensitivity",
          "nonsense")  # fmt: skip
PARTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (Flat, {"c": 1.0}), (PerLayer, {"c": 1.0}), (Constant, {"sigma": 1.0}), (Linear, {"start": 2.0, "end": 1.0}),
    (Staircase, {"start": 2.0, "end": 1.0, "every": 2}), (Exponential, {"start": 2.0, "end": 1.0}),
    (Cyclic, {"start": 2.0, "floor": 1.0, "cycles": 1}), (Fixed, {"value": 1.0}), (Smallest, {"mu": 0.5}),
    (Dssgd, {"fraction": 0.1, "threshold": 1e-4, "bound": 0.01}), (Mlp, {"hidden": (4,), "bias": True}),
    (Cnn, {"first": 2, "second": 2}),
    (gradveil.Method, {"name": "m", "clip": Flat(1.0), "sensitivity": ClipBound(), "noise": Constant(1.0)}),
)  # fmt: skip

Call = tuple[str, Callable[[], Any]]


def call(dice: random.Random, world: World, out: Path) -> Call:
    """Give one call as a text for the report, and as something to be called."""
    makers = (_plan, _train, _attack, _load, _dataset, _part, _predict)
    return dice.choices(makers, (35, 10, 18, 7, 10, 15, 5))[0](dice, world, out)


def _plan(dice: random.Random, world: World, out: Path) -> Call:
    changes: dict[str, Any] = {**TINY, **_wrong(dice, FIELDS)}
    name: Any = changes.pop("dataset", "synthetic")
    method: Any = changes.pop("method", dice.choice(("fed-cdp", methods.FED_SDP, "non-private")))
    return f"plan({name!r}, {method!r}, **{changes!r})", lambda: gradveil.plan(name, method, **changes)


def _train(dice: random.Random, world: World, out: Path) -> Call:
    plan: Any = dice.choice((*ODD, gradveil.plan("synthetic", "non-private", **TINY)))
    place: Any = dice.choice((str(out), out, *world.odd, *ODD[1:]))
    return f"train({plan!r}, {place!r})", lambda: gradveil.train(plan, place)


def _attack(dice: random.Random, world: World, out: Path) -> Call:
    target: Any = dice.choice((world.seeded, world.seeded, str(world.secret), *ODD, *world.odd))
    names = ("surface", "attack", "victims", "view", "rounds", "readings", "rule", "seed", "nonsense")
    changes = {"attack": "map", "victims": 1, **_wrong(dice, names)}
    if "nonsense" in changes:
        changes.pop("nonsense")  # Python itself refuses an unknown name of a function that lists them all
    return f"attack({target!r}, **{changes!r})", lambda: gradveil.attack(target, **changes)


def _load(dice: random.Random, world: World, out: Path) -> Call:
    folder: Any = dice.choice((world.seeded, *ODD, *world.odd))
    return f"load({folder!r})", lambda: gradveil.load(folder)


def _dataset(dice: random.Random, world: World, out: Path) -> Call:
    name: Any = dice.choice(("synthetic", *ODD, *world.odd, *world.data))
    options = _wrong(dice, ("target", "train_all", "data_dir", "seed")) if dice.random() < 0.5 else {}
    return f"dataset({name!r}, **{options!r})", lambda: gradveil.dataset(name, **options)


def _part(dice: random.Random, world: World, out: Path) -> Call:
    kind, valid = dice.choice(PARTS)
    changes = {**valid, **_wrong(dice, tuple(field.name for field in fields(kind)))}
    return f"{kind.__name__}(**{changes!r})", lambda: kind(**changes)


def _predict(dice: random.Random, world: World, out: Path) -> Call:
    x: Any = dice.choice((*ODD, np.zeros((2, 20), np.float32), np.zeros((2, 3)), np.array(["a"])))
    return f"load(...).predict({x!r})", lambda: gradveil.load(world.seeded).predict(x)


def _wrong(dice: random.Random, names: tuple[str, ...]) -> dict[str, Any]:
    return {dice.choice(names): dice.choice(ODD) for _ in range(dice.choice((0, 1, 1, 1, 2, 2)))}
