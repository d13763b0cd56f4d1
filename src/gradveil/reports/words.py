"""Sentences about a run for people who are no specialists."""

import math

from gradveil.data.dataset import UNCOVERED
from gradveil.leakage.attack_record import AttackRecord
from gradveil.leakage.membership_record import MembershipRecord, RateRecord
from gradveil.reports.evidence import WHERE, Evidence
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.run_records import quality

WHOM = {
    "central": "an adversary who sees only the models",
    "central-visible": "an adversary who sees only the models and can tell which clients took part",
    "aggregate": "an adversary who sees only the sum over a round's clients",
    "alone": "an adversary with whom every other node works",
    "server": "an honest-but-curious server",
    "type2-secret": "an adversary who sees every noisy gradient of local training",
    "type2-known": "an adversary who sees every noisy gradient and knows the records of each batch",
    "client-central": "an adversary who sees only the models, for all records of a client together",
    "client-server": "an honest-but-curious server, for all records of a client together",
}


def of_data(guarantee: GuaranteeRecord) -> list[str]:
    """Return the caveats of a guarantee that are about the data: what was taken from the records without noise."""
    return [caveat for caveat in guarantee.caveats if caveat.endswith(UNCOVERED)]


def reason(guarantee: GuaranteeRecord) -> str:
    """Say why a guarantee is not finite: its first caveat that is about the protection, not about the data."""
    return next((caveat for caveat in guarantee.caveats if not caveat.endswith(UNCOVERED)), "")


def headline(run: Evidence) -> str:
    """Say in one sentence how good the model is, what is promised, and what attackers got."""
    return f"{_learned(run)}; {_promised(run)}; {_leaked(run)}."


def _learned(run: Evidence) -> str:
    if not run.lines:
        return f"No round of {run.method} is trained yet"
    how = "without protection" if run.plan.method.idle else f"under {run.method}"
    so_far = "" if run.result is not None else f" after {len(run.lines)} of {run.plan.rounds} rounds"
    if run.accuracy is None:
        return f"Trained {how}, the model has {quality(run.lines[-1])} on the test examples{so_far}"
    return f"Trained {how}, the model is right on {run.accuracy:.0%} of the test examples{so_far}"


def _promised(run: Evidence) -> str:
    guarantee = run.guarantee
    if guarantee is None:
        return "the guarantee is computed when training ends"
    whom = WHOM[guarantee.threat_model]
    if guarantee.epsilon is None:
        return f"it has no privacy guarantee against {whom}"
    aside = ", except for what was taken from the records without noise" if of_data(guarantee) else ""
    return (
        f"against {whom}, adding or removing one {guarantee.unit} changes the probability of any outcome by at most a "
        f"factor of {_factor(guarantee.epsilon)} (epsilon {guarantee.epsilon:.3g} at delta {guarantee.delta:g}, "
        f"{_strength(guarantee.epsilon)}){aside}"
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
    leaked = {s: best.record.verdict for s in WHERE if (best := run.strongest(s)) is not None}
    open_ = [WHERE[s] for s, verdict in leaked.items() if verdict == "leaks"]
    unclear = [WHERE[s] for s, verdict in leaked.items() if verdict == "too-few-victims"]
    if open_:
        return f"our attacks recovered part of the data {_listed(open_)}"
    if unclear:
        return f"there were too few victims to tell whether our attacks recovered anything {_listed(unclear)}"
    return f"our attacks ({', '.join(WHERE[s] for s in leaked)}) recovered no more than a guess that reads no gradient"


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def outcome(record: AttackRecord) -> str:
    """Say in a sentence what one attack recovered."""
    if record.membership is not None:
        return f"{membership(record.membership)}: {BADGES[record.verdict][0]}"
    mean, prior = record.mean_rmse, record.prior_rmse
    interval = record.gain_ci
    gain = f"gain {record.gain:+.3f}" if interval is None else f"gain {interval[0]:+.3f} to {interval[1]:+.3f}"
    victims = f"{record.victims} victim{'s' if record.victims != 1 else ''}"
    sentence = f"{record.attack}, {victims}: RMSE {mean:.3f}, a guess that reads no gradient {prior:.3f} ({gain})"
    if record.candidates:
        first = record.candidates[0]
        picked = f"{round(first.success * first.trials)} of {first.trials}"
        sentence += (
            f"; picked the true record out of {first.n} candidates in {picked} trials (chance {first.chance:.0%})"
        )
    return f"{sentence}: {BADGES[record.verdict][0]}"


def membership(told: MembershipRecord) -> str:
    """Say in a clause how members were told from others."""
    low, high = told.auc_ci
    area = f"AUC {told.auc:.3f} ({low:.3f} to {high:.3f}; chance 0.5)"
    return "; ".join(
        [f"membership ({told.reads}), {told.members} members: {area}", *(_told(told, r) for r in told.rates)]
    )


def _told(told: MembershipRecord, rate: RateRecord) -> str:
    """Say how many members were told at one rate of false alarms, and how many the guarantee allows."""
    at = f"at FPR {100 * rate.fpr:g} %"
    if rate.hits is None or rate.tpr_ci is None:
        return f"{at} not known, since that takes {rate.needed} others and there were {told.calibration}"
    allowed = "nothing bounds it" if rate.bound is None else f"at most {100 * rate.bound:.3g} % allowed"
    low, high = (100 * end for end in rate.tpr_ci)
    return f"{at} {rate.hits} of {told.members} told ({low:.3g} to {high:.3g} %; {allowed})"


BADGES = {
    "leaks": ("leaks", "leaks"),
    "nothing-found": ("nothing found", "holds"),
    "too-few-victims": ("too few victims to tell", "none"),
}
"""A word and a class for each verdict; that nothing was found is no proof that there is nothing."""


def badge(record: AttackRecord | None) -> tuple[str, str]:
    """Return a word and a class for a surface."""
    return ("not attacked", "none") if record is None else BADGES[record.verdict]
