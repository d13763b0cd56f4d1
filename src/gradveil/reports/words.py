"""Sentences about a run for people who are no specialists."""

import re

from gradveil.data.dataset import UNCOVERED
from gradveil.leakage.attack_record import AttackRecord, CandidateRecord
from gradveil.leakage.membership_record import MembershipRecord, RateRecord
from gradveil.runs.epsilon_records import GuaranteeRecord

WHOM = {
    "central": "an adversary who sees only the models",
    "central-visible": "an adversary who sees only the models and can tell which clients took part",
    "aggregate": "an adversary who sees only the sum over a round's clients",
    "server": "an honest-but-curious server",
    "type2-secret": "an adversary who sees every noisy gradient of local training",
    "type2-known": "an adversary who sees every noisy gradient and knows the records of each batch",
    "alone": "an adversary who works with every other node",
    "client-central": "an adversary who sees only the models, for all records of a client together",
    "client-server": "an honest-but-curious server, for all records of a client together",
}


def unbroken(text: str) -> str:
    """Return a text in which no number such as 1e-05 is broken over two lines of a page: its hyphen does not break."""
    return re.sub(r"(?<=\de)-(?=\d)", "\N{NON-BREAKING HYPHEN}", text)


def of_data(guarantee: GuaranteeRecord) -> list[str]:
    """Return the caveats of a guarantee that are about the data: what was taken from the records without noise."""
    return [caveat for caveat in guarantee.caveats if caveat.endswith(UNCOVERED)]


def reason(guarantee: GuaranteeRecord) -> str:
    """Say why a guarantee is not finite: its first caveat that is about the protection, not about the data."""
    return next((caveat for caveat in guarantee.caveats if not caveat.endswith(UNCOVERED)), "")


def evidence_of(record: AttackRecord) -> list[str]:
    """Say in a few short lines what one attack recovered, and beside it what a guess gets."""
    if record.membership is not None:
        return [membership(record.membership)]
    interval = record.gain_ci
    gain = f"{record.gain:+.3f}" if interval is None else f"{interval[0]:+.3f} to {interval[1]:+.3f} (95 %)"
    lines = [
        f"Error {record.mean_rmse:.3f}; a guess that reads no gradient {record.prior_rmse:.3f}",
        f"Gain {gain}, attack {record.attack} on {_victims(record)}",
    ]
    return lines + [f"Picked the true record out of {c.n}: {_picked(c)}" for c in record.candidates[:1]]


def _victims(record: AttackRecord) -> str:
    return f"{record.victims} victim{'s' if record.victims != 1 else ''}"


def _picked(candidates: CandidateRecord) -> str:
    right = round(candidates.success * candidates.trials)
    return f"{right} of {candidates.trials} trials (chance {candidates.chance:.0%})"


def outcome(record: AttackRecord) -> str:
    """Say in a sentence what one attack recovered."""
    if record.membership is not None:
        return f"{membership(record.membership)}: {BADGES[record.verdict][0]}"
    mean, prior = record.mean_rmse, record.prior_rmse
    interval = record.gain_ci
    gain = f"gain {record.gain:+.3f}" if interval is None else f"gain {interval[0]:+.3f} to {interval[1]:+.3f}"
    sentence = (
        f"{record.attack}, {_victims(record)}: RMSE {mean:.3f}, a guess that reads no gradient {prior:.3f} ({gain})"
    )
    if record.candidates:
        first = record.candidates[0]
        sentence += f"; picked the true record out of {first.n} candidates in {_picked(first)}"
    return f"{sentence}: {BADGES[record.verdict][0]}"


def membership(record: MembershipRecord) -> str:
    """Say in a clause how members were told from others."""
    low, high = record.auc_ci
    area = f"AUC {record.auc:.3f} ({low:.3f} to {high:.3f}; chance 0.5)"
    return "; ".join(
        [f"membership ({record.reads}), {record.members} members: {area}", *(_rate(record, r) for r in record.rates)]
    )


def _rate(record: MembershipRecord, rate: RateRecord) -> str:
    """Say how many members were told at one rate of false alarms, and how many the guarantee allows."""
    at = f"at FPR {100 * rate.fpr:g} %"
    if rate.hits is None or rate.tpr_ci is None:
        return f"{at} not known, since that takes {rate.needed} others and there were {record.calibration}"
    allowed = "nothing bounds it" if rate.bound is None else f"at most {100 * rate.bound:.3g} % allowed"
    low, high = (100 * end for end in rate.tpr_ci)
    return f"{at} {rate.hits} of {record.members} told ({low:.3g} to {high:.3g} %; {allowed})"


BADGES = {
    "leaks": ("leaks", "leaks"),
    "nothing-found": ("nothing found", "holds"),
    "too-few-victims": ("too few victims to tell", "none"),
}
"""A word and a class for each verdict; that nothing was found is no proof that there is nothing."""


def badge(record: AttackRecord | None) -> tuple[str, str]:
    """Return a word and a class for a surface."""
    return ("not attacked", "none") if record is None else BADGES[record.verdict]
