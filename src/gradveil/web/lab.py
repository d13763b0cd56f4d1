"""The leak lab: one picture, one protection, one attack, and the steps by which it was rebuilt."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gradveil.attacks.zoo import ATTACKS
from gradveil.data.sampling import FixedPass
from gradveil.data.sources import load
from gradveil.engines.cache import drop_programs_if_many
from gradveil.errors import BadInput
from gradveil.federation.leaks import Tap
from gradveil.leakage import scenes
from gradveil.leakage.attack_record import AttackRecord
from gradveil.leakage.attack_run import attack
from gradveil.methods import METHODS
from gradveil.models.networks import AttackNet
from gradveil.privacy.schedule import Constant
from gradveil.reports.exhibits import Exhibit, exhibit_of
from gradveil.reports.pictures import data_address
from gradveil.runs.presets import fitted, resolve
from gradveil.surface import Surface
from gradveil.web.refusals import brief

DATASETS = ("digits", "mnist", "cifar10", "lfw")
METHOD_NAMES = ("non-private", "fed-cdp", "fed-alpha-cdp", "fed-sum", "fed-sdp-client", "pruning", "dssgd")
ATTACK_NAMES = ("map", "cpl", "dlg")
FRAMES, ITERATIONS, PICTURES = 24, 150, 100
SIGMAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 6.0, 20.0)
"""Where the slider stops."""
BARE = tuple(name for name in METHOD_NAMES if not METHODS[name].value.acts(Surface.EXAMPLE))
"""Methods that release the gradient of a step as it is, at any sigma: they act on the update, or not at all."""
SHOWN_FIRST = ("non-private", "pruning", "fed-alpha-cdp", "fed-cdp")
"""Methods that are beside each other when the lab opens."""


@dataclass(frozen=True, slots=True)
class LabRequest:
    """What the lab is asked: a dataset's name, which client's picture, a method, sigma and an attack."""

    dataset: str
    picture: int
    method: str
    sigma: float
    attack: str

    @staticmethod
    def of(form: dict[str, Any]) -> "LabRequest":
        """Read a form, strictly."""
        for key, allowed in (("dataset", DATASETS), ("method", METHOD_NAMES), ("attack", ATTACK_NAMES)):
            if form.get(key) not in allowed:
                raise BadInput(f"{key} = {brief(form.get(key))}: must be one of {', '.join(allowed)}")
        picture, sigma = _number(form, "picture", int), _number(form, "sigma", float)
        if not 0 <= picture < PICTURES:
            raise BadInput(f"picture = {brief(picture)}: must be between 0 and {PICTURES - 1}")
        if not 0 <= sigma <= 1000:
            raise BadInput(f"sigma = {sigma:g}: must be between 0 and 1000")
        return LabRequest(form["dataset"], picture, form["method"], sigma, form["attack"])


def _number(form: dict[str, Any], key: str, kind: Any) -> Any:
    value = form.get(key, "")
    try:
        return kind(str(value))
    except (ValueError, OverflowError, RecursionError):
        expected = "a whole number" if kind is int else "a number"
        raise BadInput(f"{key} = {brief(value)}: must be {expected}") from None


@lru_cache(maxsize=256)
def answer(request: LabRequest) -> dict[str, Any]:
    """Attack one gradient of a fresh network and give the steps as pictures, beside the truth and a blind guess."""
    data = load(request.dataset)
    method = fitted(METHODS[request.method].value, data)
    if not method.noise.silent:
        method = replace(method, noise=Constant(request.sigma))
    # The network reads the pictures themselves, also under a method whose own model reads features of them.
    changes = {"clients": PICTURES, "client_size": 10, "batch": 1, "sampling": FixedPass()}
    plan = resolve(request.dataset, data, method, changes | {"model": AttackNet(), "features": None})
    plan = scenes.as_paper(plan, Surface.EXAMPLE, 1, 1)
    scene = scenes.fresh(plan, data, Tap(Surface.EXAMPLE, "released", single=True))
    drop_programs_if_many()
    outcome = attack(_only(scene, request.picture), _slow(request.attack), 1, identify=False)
    return _as_json(exhibit_of(outcome, 1, FRAMES), outcome.record) | {"bare": request.method in BARE}


def _slow(name: str) -> Any:
    """Return an attack that moves in small steps, so that they can be watched: three to an iteration, not twenty."""
    chosen: Any = ATTACKS[name].value
    return replace(chosen, iterations=ITERATIONS, optimizer=replace(chosen.optimizer, inner=3, least_gain=0.0))


def _only(scene: Any, client: int) -> Any:
    return replace(scene, pool=np.array([client]))


def _as_json(exhibit: Exhibit, record: AttackRecord) -> dict[str, Any]:
    return {
        "truth": data_address(exhibit.truth[0]),
        "prior": data_address(exhibit.prior[0]),
        "frames": [
            {"iteration": int(n), "image": data_address(g)}
            for n, g in zip(exhibit.iterations[0], exhibit.guesses[0], strict=True)
        ],
        "error": float(exhibit.errors[0]),
        "prior_error": float(exhibit.prior_errors[0]),
        "seconds": record.seconds,
        "label_right": record.label_accuracy == 1,
    }
