"""The form of a new run: its fields, and from their texts to a plan by the function that the command line uses."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gradveil.accounting.threats import THREATS
from gradveil.data.dataset import Dataset
from gradveil.data.sources import describe, load
from gradveil.errors import BadInput
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.methods import DECAYS, METHODS
from gradveil.runs.resolving import DEFAULTS, resolved
from gradveil.runs.shorthand import SAMPLING_NAMES, divided
from gradveil.web.own_data import OwnData
from gradveil.web.refusals import brief


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: the option of `gradveil run` that it sets, its label, what it holds, and its list if any."""

    option: str
    label: str
    kind: type = int
    choices: tuple[str, ...] = ()


FIELDS = {
    "Data": (
        Field("dataset", "dataset", str, tuple(source.name for source in describe())),
        Field("own", "or a file of your own", str),
        Field("target", "its column to predict", str),
        Field("schema", "its schema (TOML file)", str),
    ),
    "Training": (
        Field("method", "method", str, tuple(METHODS)),
        Field("rounds", "rounds"),
        Field("clients", "clients"),
        Field("cohort", "clients a round"),
        Field("client-size", "examples a client"),
        Field("local-steps", "local steps a round"),
        Field("batch", "batch"),
        Field("lr", "learning rate", float),
        Field("sampling", "sampling of batches", str, tuple(SAMPLING_NAMES)),
    ),
    "Protection": (
        Field("sigma", "noise scale (sigma)", float),
        Field("decay", "how sigma decays", str, tuple(DECAYS)),
        Field("clip", "clipping bound (C)", str),
        Field("threat-model", "protect against", str, tuple(THREATS)),
        Field("delta", "delta", float),
        Field("max-epsilon", "stop before epsilon exceeds", float),
        Field("noise-source", "noise from", str, tuple(source.value for source in NoiseSource)),
        Field("seed", "seed"),
    ),
}
"""The fields by group."""
OPTIONS = {field.option: field.kind for group in FIELDS.values() for field in group if field.option != "own"}
"""What the form may say, and what its texts are: the options of `gradveil run`."""


def planned(form: Mapping[str, str], data: OwnData) -> tuple[Plan, Dataset]:
    """Resolve the plan that a form asks for, as the command line would, and load its data."""
    _refuse_unprintable(form)
    table = _typed(form.get("plan", ""))
    settings = {key: form[key].strip() for key in OPTIONS if form.get(key, "").strip()}
    if form.get("own", "").strip():
        settings["dataset"] = form["own"].strip()
    if not table:  # without a plan, nothing said would mean the demonstration
        settings = DEFAULTS | settings
    for given in (settings, table):  # whoever may start a run here must not read any file by it
        given |= {"dataset": data.dataset(given["dataset"])} if given.get("dataset") else {}
        given |= {key: data.path(key, given[key]) for key in ("schema", "test") if isinstance(given.get(key), str)}
    fields, tweaks = divided({key.replace("-", "_"): _value(key, text) for key, text in settings.items()})
    loaded: list[Dataset] = []

    def loading(name: str, **how: Any) -> Dataset:
        loaded.append(_loaded(name, _changed(name), tuple(how.items())))
        return loaded[0]

    return resolved(table, fields, tweaks, loading)[0], loaded[0]


@lru_cache(maxsize=4)
def _loaded(name: str, changed: int, how: tuple[tuple[str, Any], ...]) -> Dataset:
    """Load a dataset once while one types, and again when its file was changed."""
    return load(name, **dict(how))


def _changed(name: str) -> int:
    try:
        return Path(name).stat().st_mtime_ns
    except OSError:  # a built-in dataset
        return 0


def form_values(plan: Plan) -> dict[str, str]:
    """Return the settings of a plan as the fields show them."""
    clip, noise = plan.method.clip, plan.method.noise
    bound = next((getattr(clip, name) for name in ("c", "radius", "high") if hasattr(clip, name)), None)
    sigma = None if noise.silent else getattr(noise, "sigma", getattr(noise, "start", None))
    decay = type(noise).__name__.lower()
    numbers = {
        "lr": plan.learning_rate, "delta": plan.delta, "clip": bound, "sigma": sigma, "max-epsilon": plan.max_epsilon,
        **{key: getattr(plan, key.replace("-", "_")) for key in COUNTS},
    }  # fmt: skip
    words = {
        "method": plan.method.name, "sampling": plan.sampling.name, "noise-source": plan.noise_source.value,
        "threat-model": plan.threat_model, "decay": decay if sigma is not None and decay in DECAYS else "",
        "target": plan.target or "",
    }  # fmt: skip
    return {key: "" if value is None else f"{value:.10g}" for key, value in numbers.items()} | words


COUNTS = ("rounds", "clients", "cohort", "client-size", "local-steps", "batch", "seed")


def _typed(text: str) -> dict[str, Any]:
    """Read the plan that was typed into the form."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise BadInput("plan: is nested too deeply") from None
    except ValueError as error:  # broken, or a number of too many digits
        raise BadInput(f"plan: is not TOML ({error})") from None
    if text.strip() and not table:
        raise BadInput("plan: is empty; a plan names at least one key, such as dataset or rounds")
    return table


def _refuse_unprintable(form: Mapping[str, str]) -> None:
    for key, value in form.items():
        if not (value if key != "plan" else "".join(value.split())).isprintable():
            raise BadInput(f"{brief(key)}: holds characters that cannot be printed")


def _value(key: str, text: str) -> Any:
    """Read a field of the form as what it is."""
    kind = OPTIONS[key]
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise BadInput(f"{key.replace('-', '_')} = {brief(text)}: {expected} is expected") from None
