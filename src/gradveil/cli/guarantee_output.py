"""Guarantees for the terminal: one row for adversaries with the same epsilon, and one sentence for each reason."""

from collections.abc import Callable, Sequence
from typing import Any

from gradveil.accounting.caveats import NOT_HIDDEN
from gradveil.cli.output import say, table
from gradveil.reports import words
from gradveil.runs.epsilon_records import GuaranteeRecord, PresumedEpsilon


def show_guarantees(title: str, records: Sequence[GuaranteeRecord]) -> None:
    """Print what holds against whom; before it, what no epsilon covers because it was taken from the data."""
    for caveat in dict.fromkeys(caveat for g in records for caveat in words.of_data(g)):
        say(f"Caveat: {caveat}")
    delta, adjacency = records[0].delta, records[0].adjacency
    rows = [[names, unit, epsilon] for (unit, epsilon), names in _grouped(records, _row).items()]
    heading = f"{title} (delta {delta:g}, {adjacency} neighbors)"
    table(heading, ["adversary (threat model)", "protects one", "epsilon"], rows)
    show_reasons(records)


def show_reasons(records: Sequence[GuaranteeRecord]) -> None:
    """Say once for each reason why an epsilon is not finite, or larger than one might expect."""
    infinite = [g for g in records if not g.finite]
    for reason, names in _grouped(infinite, words.reason).items():
        whom = "any adversary" if len(infinite) == len(records) > 1 else names
        say(f"No finite epsilon against {whom}: {reason}")
    visible = [g for g in records if g.finite and NOT_HIDDEN in g.caveats]
    for caveat, names in _grouped(visible, lambda g: NOT_HIDDEN).items():
        say(f"{names}: {caveat}")


def show_presumed(figures: Sequence[PresumedEpsilon]) -> None:
    """Print what some would report, and why it is not a guarantee."""
    for figure in figures:
        epsilon = "no finite epsilon" if figure.epsilon is None else f"epsilon {figure.epsilon:.3g}"
        say(f"{epsilon.capitalize()} for one {figure.unit} against {figure.threat_model} {figure.label}.")


def _row(record: GuaranteeRecord) -> tuple[str, str]:
    return record.unit, "none" if record.epsilon is None else f"{record.epsilon:.3g}"


def _grouped(records: Sequence[GuaranteeRecord], key: Callable[[GuaranteeRecord], Any]) -> dict[Any, str]:
    """Name the adversaries that agree in something, in the order in which they first occur."""
    groups: dict[Any, list[str]] = {}
    for g in records:
        groups.setdefault(key(g), []).append(g.threat_model)
    return {shared: ", ".join(names) for shared, names in groups.items()}
