"""How many rounds a guarantee must count, which are more than were done where the data decided when to stop.

A run that stops when its accuracy or its RMSE reaches a target is known to have stopped there, and both depend on the
data. The epsilon of the rounds done bounds what each number of rounds gives away, each with its own delta; it does not
bound what the choice among them gives away. All planned rounds do: stopping early only leaves some of them out.
"""

from collections.abc import Sequence
from dataclasses import replace

from gradveil.federation.plan import Plan
from gradveil.federation.rounds import cohort_of
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.runs.budget import Budget
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.run_records import Earlier

HELD_OUT = (
    "When the run stops depends on how good it is on held-out records, read without noise: no epsilon covers what the "
    "number of rounds says about those records, which are not trained on."
)
"""The caveat of every run that may stop at a target."""


def planned(plan: Plan, budget: Budget, state: State, roots: Keys) -> tuple[int, int]:
    """Return the rounds to count and the busiest client's participations in them: those done, unless a target is set.

    Cohorts of rounds that were not trained are drawn as they would have been. A budget ends a run whatever the data
    are, so rounds that it does not afford are not counted.
    """
    counts, done = state.participations.copy(), state.round
    most = [int(counts.max())]
    for t in range(done, plan.rounds if plan.has_target else done):
        counts[cohort_of(plan, t, roots)] += 1
        most.append(int(counts.max()))
    low, high = 0, len(most) - 1
    while low < high:  # what is spent only grows, so the last affordable round is found by halving
        middle = (low + high + 1) // 2
        low, high = (middle, high) if budget.affords(done + middle, most[middle]) else (low, middle - 1)
    return done + low, most[low]


def guarantees(
    plan: Plan, budget: Budget, state: State, roots: Keys, earlier: Sequence[Earlier]
) -> tuple[int, tuple[GuaranteeRecord, ...]]:
    """Account a run that is over: how many rounds were counted, and what holds against every adversary."""
    rounds, most = planned(plan, budget, state, roots)
    caveats = [*remarks(state.round, rounds, earlier), *([HELD_OUT] if plan.has_target else [])]
    records = budget.all_guarantees(rounds, most)
    return rounds, tuple(replace(record, caveats=(*record.caveats, *caveats)) for record in records)


def remarks(done: int, counted: int, earlier: Sequence[Earlier]) -> list[str]:
    """Say what a reader must know about the number of rounds."""
    caveats = []
    if counted > done:
        caveats.append(
            f"The run stopped after {done} rounds because of how good its model was, which depends on the "
            f"data, so all {counted} rounds that it might have trained are counted."
        )
    if earlier:
        at = ", ".join(f"from {stretch.rounds} after {stretch.until} rounds" for stretch in earlier)
        caveats.append(
            f"The number of planned rounds was changed ({at}); every round is counted as it was trained, but if "
            "results were looked at before, that choice is not covered."
        )
    return caveats
