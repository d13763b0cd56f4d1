"""How often each client that the data name draws its records, and how much it weighs: words and names as numbers."""

from collections.abc import Mapping
from typing import Any

from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput, quoted
from gradveil.fields import scalar

RATES, WEIGHTS = "client_rates", "client_weights"
Settings = dict[str, Any]


def divided_by_form(changes: Settings) -> tuple[Settings, Settings]:
    """Divide settings into those of a plan, and rates and weights by a word or by the names of clients."""
    words = {name: changes[name] for name in (RATES, WEIGHTS) if isinstance(changes.get(name), str | Mapping)}
    return {name: value for name, value in changes.items() if name not in words}, words


def numbers(words: Settings, dataset: Dataset, sizes: tuple[int, ...], batch: int) -> Settings:
    """Return rates and weights as numbers, one for each client in the order of their names.

    client_rates: `equal` (one rate for all, that of the plan), `batch` (batches of `batch` examples on average, or all
    that a client has), or rates of clients by name, the others drawing at the common one. client_weights: `rows` (as
    many as a client has), `equal`, or one of each client by name.
    """
    if words and dataset.owners is None:
        raise BadInput(f"{next(iter(words))}: is for clients that the data name; give client_column, or clients")
    settings: Settings = {}
    if (choice := words.get(RATES)) not in (None, "equal"):
        settings[RATES] = tuple(min(1.0, batch / size) for size in sizes)
        if choice != "batch":
            common = batch / max(sizes)
            settings[RATES] = tuple(_by_name(RATES, choice, dataset).get(name, common) for name in dataset.client_names)
    if (choice := words.get(WEIGHTS)) not in (None, "rows"):
        settings[WEIGHTS] = (
            (1.0,) * len(sizes) if choice == "equal" else _all(_by_name(WEIGHTS, choice, dataset), dataset)
        )
    return settings


def _by_name(option: str, choice: Any, dataset: Dataset) -> dict[str, float]:
    """Return numbers by client, of a mapping or of NAME=NUMBER,...; an unknown name is refused."""
    pairs = choice if isinstance(choice, Mapping) else dict(_pair(option, part) for part in choice.split(","))
    for name in pairs:
        if name not in dataset.client_names:
            listed = ", ".join(dataset.client_names[:10]) + (", ..." if len(dataset.client_names) > 10 else "")
            raise BadInput(f"{option}: {quoted(name)} is no client of {dataset.name}; they are {listed}")
    return {name: float(scalar(float, value, f"{option} of {name}")) for name, value in pairs.items()}


def _pair(option: str, part: str) -> tuple[str, float]:
    name, equals, value = part.rpartition("=")
    try:
        return name.strip() if equals else "", float(value)
    except ValueError:
        words = "equal, batch" if option == RATES else "rows, equal"
        raise BadInput(f"{option} = {quoted(part)}: must be {words}, or NAME=NUMBER,NAME=NUMBER") from None


def _all(pairs: dict[str, float], dataset: Dataset) -> tuple[float, ...]:
    missing = [name for name in dataset.client_names if name not in pairs]
    if missing:
        raise BadInput(f"{WEIGHTS}: {quoted(missing[0])} has none; give one for each of {len(dataset.client_names)}")
    return tuple(pairs[name] for name in dataset.client_names)
