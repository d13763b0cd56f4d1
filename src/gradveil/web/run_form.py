"""The form of a new run: from its texts to a plan, by the function that the command line uses."""

import tomllib
from collections.abc import Mapping
from typing import Any

from gradveil.data.sources import describe, load
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.runs.resolving import DEFAULTS, resolved
from gradveil.runs.shorthand import divided
from gradveil.web.refusals import brief

OPTIONS = {
    "dataset": str, "method": str, "rounds": int, "clients": int, "cohort": int, "client-size": int,
    "local-steps": int, "batch": int, "lr": float, "clip": str, "sigma": float, "decay": str, "seed": int,
    "delta": float, "max-epsilon": float, "noise-source": str, "sampling": str,
}  # fmt: skip
"""What the form may say, and what its texts are: the options of `gradveil run`."""


def planned(form: Mapping[str, str]) -> Plan:
    """Resolve the plan that a form asks for, as the command line would."""
    table = _typed(form.get("plan", ""))
    settings = {key: form[key].strip() for key in OPTIONS if form.get(key, "").strip()}
    _refuse_odd(form, (settings.get("dataset"), table.get("dataset")))
    if not table:  # without a plan, nothing said would mean the demonstration
        settings = DEFAULTS | settings
    fields, tweaks = divided({key.replace("-", "_"): _value(key, text) for key, text in settings.items()})
    return resolved(table, fields, tweaks, load)[0]


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


def _refuse_odd(form: Mapping[str, str], datasets: tuple[Any, ...]) -> None:
    """Let a form name built-in datasets only: whoever may start a run here must not read any file by it."""
    for dataset in datasets:
        if dataset and dataset not in [source.name for source in describe()]:
            raise BadInput(f"dataset = {brief(dataset)}: a page can only start runs on built-in datasets")
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
