"""The leak lab: one picture, one protection, one attack, and the steps by which it was rebuilt."""

import base64
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from gradveil.attacks.zoo import ATTACKS
from gradveil.data.sources import load
from gradveil.engines.cache import let_go_of_programs
from gradveil.errors import BadInput
from gradveil.federation.leaks import Tap
from gradveil.leakage import scenes
from gradveil.leakage.attack_record import AttackRecord
from gradveil.leakage.attack_run import attack
from gradveil.methods import METHODS
from gradveil.models.networks import AttackNet
from gradveil.privacy.schedule import Constant
from gradveil.reports.exhibits import Exhibit, exhibit_of
from gradveil.runs.presets import fitted, resolve
from gradveil.surface import Surface
from gradveil.web.refusals import brief

DATASETS = ("digits", "mnist", "cifar10", "lfw")
METHOD_NAMES = ("non-private", "fed-cdp", "fed-alpha-cdp", "fed-sdp-client", "pruning", "dssgd")
ATTACK_NAMES = ("cpl", "dlg", "map")
FRAMES, ITERATIONS, PICTURES = 24, 150, 100


@dataclass(frozen=True, slots=True)
class LabRequest:
    """What the lab is asked: a dataset's name, which client's picture, a method, sigma and an attack."""

    dataset: str
    picture: int
    method: str
    sigma: float
    attack: str

    @staticmethod
    def of(given: dict[str, Any]) -> "LabRequest":
        """Read a form, strictly."""
        for key, known in (("dataset", DATASETS), ("method", METHOD_NAMES), ("attack", ATTACK_NAMES)):
            if given.get(key) not in known:
                raise BadInput(f"{key} = {brief(given.get(key))}: must be one of {', '.join(known)}")
        picture, sigma = _number(given, "picture", int), _number(given, "sigma", float)
        if not 0 <= picture < PICTURES:
            raise BadInput(f"picture = {brief(picture)}: must lie between 0 and {PICTURES - 1}")
        if not 0 <= sigma <= 1000:
            raise BadInput(f"sigma = {sigma:g}: must lie between 0 and 1000")
        return LabRequest(given["dataset"], picture, given["method"], sigma, given["attack"])


def _number(given: dict[str, Any], key: str, kind: Any) -> Any:
    value = given.get(key, "")
    try:
        return kind(str(value))
    except (ValueError, OverflowError, RecursionError):
        wanted = "a whole number" if kind is int else "a number"
        raise BadInput(f"{key} = {brief(value)}: must be {wanted}") from None


def answer(question: LabRequest) -> dict[str, Any]:
    """Attack one gradient of a fresh network and give the steps as pictures, beside the truth and a blind guess."""
    data = load(question.dataset)
    method = fitted(METHODS[question.method].value, data)
    if not method.noise.silent:
        method = replace(method, noise=Constant(question.sigma))
    plan = resolve(question.dataset, data, method, {"clients": PICTURES, "client_size": 10, "batch": 1})
    plan = scenes.as_paper(replace(plan, model=_network(plan.model, data.shape)), Surface.EXAMPLE, 1, 1)
    scene = scenes.fresh(plan, data, Tap(Surface.EXAMPLE, "released", single=True))
    let_go_of_programs()
    outcome = attack(_only(scene, question.picture), _slow(question.attack), 1, beside=False)
    return _told(exhibit_of(outcome, 1, FRAMES), outcome.record)


def _slow(name: str) -> Any:
    """Return an attack that moves in small steps, so that they can be watched: three to an iteration, not twenty."""
    chosen: Any = ATTACKS[name].value
    return replace(chosen, iterations=ITERATIONS, optimizer=replace(chosen.optimizer, inner=3, least_gain=0.0))


def _network(model: Any, shape: tuple[int, ...]) -> Any:
    return AttackNet() if min(shape[:2]) >= 8 else model


def _only(scene: Any, client: int) -> Any:
    return replace(scene, pool=np.array([client]))


def _told(shows: Exhibit, record: AttackRecord) -> dict[str, Any]:
    return {
        "truth": picture(shows.truth[0]),
        "prior": picture(shows.prior[0]),
        "frames": [
            {"iteration": int(n), "image": picture(g)}
            for n, g in zip(shows.iterations[0], shows.guesses[0], strict=True)
        ],
        "error": float(shows.errors[0]),
        "prior_error": float(shows.prior_errors[0]),
        "seconds": record.seconds,
        "label_right": record.label_accuracy == 1,
    }


def picture(image: np.ndarray[Any, Any]) -> str:
    """Return [h, w, 1 or 3] floats as a PNG in a data address."""
    shown = np.rint(np.clip(np.nan_to_num(image), 0, 1) * 255).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(np.repeat(shown, 3 // shown.shape[2], axis=2)).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
