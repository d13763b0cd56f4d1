"""What holds against whom, for pages and cards: adversaries with the same guarantee share a row."""

from typing import Any

from gradveil.reports import words
from gradveil.reports.evidence import Evidence
from gradveil.runs.epsilon_records import GuaranteeRecord


def promise(run: Evidence) -> list[str]:
    """Say in plain words what holds, for whom, and under what."""
    guarantee = run.guarantee
    if guarantee is None:
        return ["Training has not finished; the guarantee is computed at its end."]
    source = (
        "Noise was drawn from the operating system's entropy and is not stored."
        if guarantee.noise_source == "secret"
        else "Noise was drawn from a seed: the guarantee holds only against those who do not know the seed."
    )
    whom = words.WHOM[guarantee.threat_model]
    if guarantee.epsilon is None:
        return [f"Against {whom}: no finite epsilon. {words.reason(guarantee)}", source]
    first = "".join(f"{caveat} " for caveat in words.of_data(guarantee))
    return [
        f"{first}Against {whom}: epsilon {guarantee.epsilon:.3g} at delta {guarantee.delta:g}, for one "
        f"{guarantee.unit}, {guarantee.adjacency} neighbors, with {guarantee.sampling}, accounted by "
        f"{guarantee.accountant}.",
        source,
    ]


def rows(run: Evidence) -> list[dict[str, Any]]:
    """Return the guarantees of a run; adversaries against whom the very same holds are named in one row."""
    merged: list[dict[str, Any]] = []
    for guarantee in () if run.result is None else run.result.guarantees:
        row = _row(guarantee, run)
        twin = next((one for one in merged if one["row"] == row), None)
        if twin is None:
            twin = {"row": row, "adversaries": []}
            merged.append(twin)
        twin["adversaries"].append((guarantee.threat_model, words.WHOM[guarantee.threat_model]))
    return [{"adversaries": one["adversaries"], **one["row"]} for one in merged]


def _row(guarantee: GuaranteeRecord, run: Evidence) -> dict[str, Any]:
    """Return what a row says beside the adversary; epsilon as it is printed, so that what looks equal is equal."""
    return {
        "unit": guarantee.unit,
        "epsilon": "none finite" if guarantee.epsilon is None else f"{guarantee.epsilon:.3g}",
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "sampling": guarantee.sampling if guarantee.finite else "",
        "caveat": "" if guarantee.finite else words.reason(guarantee),
        "audit": audited(guarantee, run),
    }


def audited(guarantee: GuaranteeRecord, run: Evidence) -> dict[str, Any] | None:
    """Return the measured lower bound of a guarantee, with its level, power and date, if the run was audited."""
    row = run.measured(guarantee)
    if row is None or run.audit is None:
        return None
    kept = ("lower_bound", "ceiling", "confidence", "level", "verdict")
    return {name: getattr(row, name) for name in kept} | {"date": run.audit.date}
