"""From settings (a plan file, options or a form) to plans that can be trained."""

from collections.abc import Callable
from typing import Any

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.data.sources import locate
from gradveil.federation.plan import LOADED_BY, Plan
from gradveil.fields import settle_given
from gradveil.models.adapters import adapted_in
from gradveil.privacy.method import Method
from gradveil.runs import client_shares, demo
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.shorthand import Tweaks, method_named


def resolved(
    table: dict[str, Any],
    fields: dict[str, Any],
    tweaks: Tweaks,
    load: Callable[..., Dataset],
    target_epsilon: float | None = None,
) -> list[Plan]:
    """Resolve the plan, or the three plans of the demonstration if nothing says what to train.

    table: the content of a plan file, or nothing. fields: of a plan, which override the file. load: takes a
    dataset's name, and those fields that `LOADED_BY` names where they are given. target_epsilon: what the noise will be
    scaled to.
    """
    demonstration = not table and not {"dataset", "method"} & fields.keys()
    defaults = DEFAULTS if target_epsilon is None else DEFAULTS | {"method": SOUND}
    named = {key: fields.get(key, table.get(key, default)) for key, default in defaults.items()}
    name = locate(named["dataset"])
    table, fields = ({k: v for k, v in settings.items() if k not in DEFAULTS} for settings in (table, fields))
    fields, words = client_shares.divided_by_form(fields)
    changes = codec.decode_given(Plan, table) | settle_given(Plan, adapted_in(fields)) | words
    data = load(name, **{key: changes[key] for key in LOADED_BY if key in changes})
    if not demonstration:
        method = _method(named["method"], data, changes, target_epsilon)
        return [resolve(name, data, tweaks.of(method), changes, target_epsilon)]
    trio = [chosen(m, data) for m in demo.METHODS]
    return [resolve(name, data, m if m.noise.silent else tweaks.of(m), changes) for m in trio]


DEFAULTS = {"dataset": "digits", "method": "fed-cdp"}
"""The dataset and method that are trained by default."""
SOUND = "fed-sum"
"""The method that is trained by default to a target epsilon: the most accurate of those with a sound guarantee."""


def _method(named: Any, data: Dataset, changes: dict[str, Any], target_epsilon: float | None) -> Method:
    """Return the method of a name, fitted to the dataset, or that of a plan file's table, unchanged."""
    if isinstance(named, str):
        return chosen(method_named(named), data, changes, target_epsilon)
    return codec.decode(Method, named, "method")
