"""What no level measures: rows that decide when a run stops, read without noise."""

from gradveil.data.dataset import Dataset
from gradveil.federation.plan import Plan


def uncovered(plan: Plan, dataset: Dataset) -> str | None:
    """Say whose rows decide when a run of the plan stops; None where its rounds and its budget alone do.

    With one of m rows more or less right, the same model reaches k / m or does not: neighbors in such a row stop in
    different rounds under the same keys, for certain. Rows that are trained on act through noised releases alone.
    """
    if not plan.has_target:
        return None
    which, rows = ("test", dataset.test) if dataset.validation is None else ("validation", dataset.validation)
    read = f"{len(rows)} {which} rows without noise"
    return f"not covered: when the run stops is read off {read}, and one of them can decide it"
