"""From what was said, in a plan file, by options or in a form, to plans that can be trained."""

from collections.abc import Callable
from typing import Any

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.data.sources import locate
from gradveil.federation.plan import Plan
from gradveil.fields import settle_given
from gradveil.privacy.method import Method
from gradveil.runs import demo
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.shorthand import Tweaks, method_named


def resolved(table: dict[str, Any], given: dict[str, Any], tweaks: Tweaks, load: Callable[..., Dataset]) -> list[Plan]:
    """Resolve the plan, or the three plans of the demonstration if nothing says what to train.

    table: the content of a plan file, or nothing. given: fields of a plan, which change the file's. load: takes a
    dataset's name, and `target` and `train_all` where they are given.
    """
    demonstration = not table and not {"dataset", "method"} & given.keys()
    named = {key: given.get(key, table.get(key, usual)) for key, usual in USUAL.items()}
    name = locate(named["dataset"])
    table, given = ({k: v for k, v in said.items() if k not in USUAL} for said in (table, given))
    changes = codec.decode_given(Plan, table) | settle_given(Plan, given)
    data = load(name, **{key: changes[key] for key in ("target", "train_all") if key in changes})
    if not demonstration:
        return [resolve(name, data, tweaks.of(_method(named["method"], data)), changes)]
    trio = [chosen(m, data) for m in demo.METHODS]
    return [resolve(name, data, m if m.noise.silent else tweaks.of(m), changes) for m in trio]


USUAL = {"dataset": "digits", "method": "fed-cdp"}
"""What is trained where nothing is said."""


def _method(named: Any, data: Dataset) -> Method:
    """Read a method from its name, fitted to the dataset, or from the table of a plan file, as it stands there."""
    if isinstance(named, str):
        return chosen(method_named(named), data)
    return codec.decode(Method, named, "method")
