"""Sentences about a run for people who are no specialists."""

import math

from gradveil.data.dataset import UNCOVERED
from gradveil.leakage.attack_record import AttackRecord
from gradveil.reports.evidence import WHERE, Evidence, leaks
from gradveil.runs.epsilon_records import GuaranteeRecord

WHOM = {
    "central": "an adversary who sees only the models",
    "central-visible": "an adversary who sees only the models and can tell which clients took part",
    "server": "an honest-but-curious server",
    "type2-secret": "an adversary who sees every noisy gradient of local training",
    "type2-known": "an adversary who sees every noisy gradient and knows the records of each batch",
    "client-central": "an adversary who sees only the models, for all records of a client together",
    "client-server": "an honest-but-curious server, for all records of a client together",
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
        return f"No round of {run.method} is trained yet"
    how = "without protection" if run.plan.method.idle else f"under {run.method}"
    so_far = "" if run.result is not None else f" after {len(run.lines)} of {run.plan.rounds} rounds"
    return f"Trained {how}, the model is right on {run.accuracy:.0%} of the test examples{so_far}"


def _promised(run: Evidence) -> str:
    held = run.guarantee
    if held is None:
        return "the guarantee is computed when training ends"
    whom = WHOM[held.threat_model]
    if held.epsilon is None:
        return f"it has no privacy guarantee against {whom}"
    aside = ", except for what was taken from the records without noise" if of_data(held) else ""
    return (
        f"against {whom}, adding or removing one {held.unit} changes the probability of any outcome by at most a "
        f"factor of {_factor(held.epsilon)} (epsilon {held.epsilon:.3g} at delta {held.delta:g}, "
        f"{_strength(held.epsilon)}){aside}"
    )


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{epsilon:.3g}"


def _strength(epsilon: float) -> str:
    """Say what an epsilon of this size is commonly called."""
    if epsilon <= 1:
        return "a strong guarantee"
    return "a moderate guarantee" if epsilon <= 10 else "a weak guarantee"


def _leaked(run: Evidence) -> str:
    if not run.attacks:
        return "it was not attacked"
    found = {s: leaks(best.record) for s in WHERE if (best := run.strongest(s)) is not None}
    open_ = [WHERE[s] for s, leak in found.items() if leak]
    unclear = [WHERE[s] for s, leak in found.items() if leak is None]
    if open_:
        return f"our attacks recovered part of the data {_listed(open_)}"
    if unclear:
        return f"there were too few victims to tell whether our attacks recovered anything {_listed(unclear)}"
    return f"our attacks ({', '.join(WHERE[s] for s in found)}) recovered no more than a guess that reads no gradient"


def _listed(places: list[str]) -> str:
    *most, last = places
    return f"{', '.join(most)} and {last}" if most else last


def outcome(record: AttackRecord) -> str:
    """Say in a sentence what one attack recovered."""
    mean, prior = record.mean_rmse, record.prior_rmse
    interval = record.gain_ci
    if interval is None:
        judged = "one victim is too few to tell this from chance"
    elif record.resilient:
        judged = f"not clearly better (gain {interval[0]:+.3f} to {interval[1]:+.3f})"
    else:
        judged = f"better (gain {interval[0]:+.3f} to {interval[1]:+.3f})"
    victims = f"{record.victims} victim{'s' if record.victims != 1 else ''}"
    told = f"{record.attack}, {victims}: RMSE {mean:.3f}, a guess that reads no gradient {prior:.3f}: {judged}"
    if record.candidates:
        first = record.candidates[0]
        picked = f"{round(first.success * record.victims)} of {record.victims}"
        told += f"; picked the true record out of {first.n} candidates for {picked} (chance {first.chance:.0%})"
    return told


def badge(record: AttackRecord | None) -> tuple[str, str]:
    """Return a word and a class for a surface; that no gain was found is no proof that there is none."""
    if record is None:
        return "not attacked", "none"
    return {True: ("leaks", "leaks"), None: ("unclear", "none"), False: ("no gain found", "holds")}[leaks(record)]
