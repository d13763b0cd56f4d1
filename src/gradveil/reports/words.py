"""Sentences about a run for people who are no specialists."""

import math

from gradveil.data.dataset import UNCOVERED
from gradveil.leakage.attack_record import AttackRecord
from gradveil.reports.evidence import WHERE, Evidence, leaks
from gradveil.runs.epsilon_records import GuaranteeRecord

WHOM = {
    "central": "whoever sees only the models",
    "central-visible": "whoever sees only the models and can tell who took part",
    "server": "a curious server",
    "type2-secret": "whoever sees every noised step of training",
    "type2-known": "whoever sees every noised step and knows who is in each batch",
    "client-central": "whoever sees only the models, for all records of a client at once",
    "client-server": "a curious server, for all records of a client at once",
}


def of_data(held: GuaranteeRecord) -> list[str]:
    """Return the caveats of a guarantee that are about the data: what was taken from the records without noise."""
    return [caveat for caveat in held.caveats if caveat.endswith(UNCOVERED)]


def reason(held: GuaranteeRecord) -> str:
    """Say why a guarantee is not finite: its first caveat that is about the protection, not about the data."""
    return next((caveat for caveat in held.caveats if not caveat.endswith(UNCOVERED)), "")


def headline(run: Evidence) -> str:
    """Say in one sentence how good the model is, what is promised, and what attackers got."""
    return f"{_learned(run)}; {_promised(run)}; {_leaked(run)}."


def _learned(run: Evidence) -> str:
    if run.accuracy is None:
        return f"Under {run.method} nothing is trained yet"
    how = "without protection" if run.plan.method.idle else f"under {run.method}"
    so_far = "" if run.result is not None else f" after {len(run.lines)} of {run.plan.rounds} rounds"
    return f"Trained {how}, the model is right about {run.accuracy:.0%} of unseen examples{so_far}"


def _promised(run: Evidence) -> str:
    held = run.guarantee
    if held is None:
        return "what can be promised is settled when training ends"
    whom = WHOM[held.threat_model]
    if held.epsilon is None:
        return f"no mathematical promise of privacy holds against {whom}"
    aside = ", apart from what was taken from the records themselves" if of_data(held) else ""
    return (
        f"against {whom}, whether one {held.unit} was there changes the odds of anything that is seen at most "
        f"{_factor(held.epsilon)} (epsilon {held.epsilon:.3g}, {_strength(held.epsilon)}){aside}"
    )


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g} times" if epsilon < 7 else f"by e to the power of {epsilon:.3g}"


def _strength(epsilon: float) -> str:
    """Say what an epsilon of this size is commonly called."""
    if epsilon <= 1:
        return "a strong promise"
    return "a moderate promise" if epsilon <= 10 else "a weak promise"


def _leaked(run: Evidence) -> str:
    if not run.attacks:
        return "it was not attacked"
    found = {s: leaks(best.record) for s in WHERE if (best := run.strongest(s)) is not None}
    open_ = [WHERE[s] for s, leak in found.items() if leak]
    unclear = [WHERE[s] for s, leak in found.items() if leak is None]
    if open_:
        return f"our attacks learned something of the data {_listed(open_)}"
    if unclear:
        return f"whether our attacks learned anything {_listed(unclear)} could not be told"
    return f"our attacks ({', '.join(WHERE[s] for s in found)}) learned no more than a guess without gradients"


def _listed(places: list[str]) -> str:
    *most, last = places
    return f"{', '.join(most)} and {last}" if most else last


def outcome(record: AttackRecord) -> str:
    """Say in a sentence what one attack made of what it read."""
    mean, prior = record.mean_rmse, record.prior_rmse
    interval = record.gain_ci
    if interval is None:
        judged = "one victim is too few to tell it from chance"
    elif record.resilient:
        judged = f"not clearly better (gain {interval[0]:+.3f} to {interval[1]:+.3f})"
    else:
        judged = f"better (gain {interval[0]:+.3f} to {interval[1]:+.3f})"
    victims = f"{record.victims} victim{'s' if record.victims != 1 else ''}"
    told = f"{record.attack}, {victims}: error {mean:.3f} where a guess without gradients has {prior:.3f}, {judged}"
    if record.candidates:
        first = record.candidates[0]
        often = f"{first.success:.0%} of the time (chance {first.chance:.0%})"
        told += f"; told the record from {first.n - 1} others {often}"
    return told


def badge(record: AttackRecord | None) -> tuple[str, str]:
    """Return a word and a class for a surface; that no gain was found is no proof that there is none."""
    if record is None:
        return "not attacked", "none"
    return {True: ("leaks", "leaks"), None: ("unclear", "none"), False: ("no gain found", "holds")}[leaks(record)]
