"""Membership from readings and from a trained model: members and others by the thousand, and how they were told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from gradveil import keys
from gradveil.accounting.tradeoff import approximate_power, gaussian_power, of_pairs
from gradveil.attacks.leak import Leak
from gradveil.attacks.membership import Membership, likelihood_ratios
from gradveil.attacks.reference_models import beside_usual, margins, usual_margins
from gradveil.attacks.score import Truth
from gradveil.errors import BadInput
from gradveil.leakage.membership_record import MembershipRecord
from gradveil.leakage.roc import FPRS, auc, auc_interval, rate_at
from gradveil.runs.epsilon_records import GuaranteeRecord

Array = np.ndarray[Any, Any]
PLACES = 40
"""Most places of batches that records are tried at; more would take more calls for as many records."""
SEES_MODELS = ("central", "central-visible", "aggregate", "server")
"""Threat models whose adversary sees the trained model at least: the guarantee against each bounds what it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a guarantee allows: the largest TPR at an FPR, the guarantee in words, and its numbers."""

    words: str
    power: Callable[[float], float] | None = None
    mu: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    threat_model: str | None = None


def from_readings(
    attack: Membership,
    caught: Sequence[Leak],
    truths: Sequence[Truth],
    by_client: bool,
    seed: int,
    done: Callable[[int], None],
) -> MembershipRecord:
    """Try records at places of the victims' batches: the true one and public ones, each once there and once not.

    by_client: whether noise hides a client's update, so that a record moves it from one place within C to another.
    """
    random, first = np.random.default_rng([seed, 0x6D656D62]), caught[0]
    spots = [(v, place) for v, truth in enumerate(truths) for place in range(len(truth.y))]
    chosen = sorted(random.permutation(len(spots))[:PLACES])
    most = max(len(truth.y) for truth in truths) * len(first.readings)
    pairs = min(attack.pairs, attack.effort // (3 * most))
    each = min(max(1, -(-pairs // len(chosen))), len(first.public.y) + 1)
    ratios, finished = [], -1
    for victim, place in (spots[i] for i in chosen):
        while finished < victim - 1:
            done(finished := finished + 1)
        rows = random.choice(len(first.public.y), each - 1, replace=False)
        candidates = _with_truth(truths[victim], place, first, rows)
        key = keys.named(keys.root(seed), "membership", victim, place)
        ratios.append(likelihood_ratios(caught[victim], truths[victim], place, candidates, key))
    for victim in range(finished + 1, len(caught)):
        done(victim)
    members, others = (np.concatenate(part) for part in zip(*ratios, strict=True))
    halves = np.array_split(random.permutation(others), 2)
    score = "likelihood ratio of the mechanism, with the record over without it, given the rest of the batch"
    return _record("gradient", score, members, *halves, allowance=_of_reading(first, by_client))


def _with_truth(truth: Truth, place: int, leak: Leak, rows: Array) -> Truth:
    """Return the true record of a place, followed by public ones."""
    x = np.concatenate([truth.x[place : place + 1], leak.public.x[rows]])
    return Truth(x, np.concatenate([truth.y[place : place + 1], leak.public.y[rows]]))


def _of_reading(leak: Leak, by_client: bool) -> Allowance:
    """Return what the noise of the readings allows."""
    if leak.mu is None:
        return Allowance(words="nothing bounds it: there is no noise of a public scale on what was read")
    mu = 2 * leak.mu if by_client else leak.mu
    whose = "two updates of one client" if by_client else "one example more or less"
    words = f"Gaussian noise with mu = {mu:.3g} for {whose} in what was read"
    return Allowance(words=words, power=partial(gaussian_power, mu), mu=mu)


def from_model(
    attack: Membership,
    caught: Sequence[Leak],
    truths: Sequence[Truth],
    held_out: Truth,
    guarantees: Sequence[GuaranteeRecord],
    seed: int,
) -> MembershipRecord:
    """Compare how well the trained model knows its victims' records and held-out ones, beside reference models.

    Half of the held-out records set the thresholds and the line of `beside_usual`; the other half are judged.
    """
    stage, params, public = caught[0].stage, caught[0].readings[0].params, caught[0].public
    if len(held_out.y) < 4:
        raise BadInput(f"attack = membership: only {len(held_out.y)} held-out records can be compared with members")
    random = np.random.default_rng([seed, 0x6D6F6465])
    order, middle = random.permutation(len(held_out.y)), len(held_out.y) // 2
    x, y = (
        np.concatenate([column[order], *(getattr(truth, name) for truth in truths)])
        for name, column in (("x", held_out.x), ("y", held_out.y))
    )
    key = keys.named(keys.root(seed), "reference")
    usual = usual_margins(stage, params, public, x, y, attack.references, key)
    scores = beside_usual(margins(stage.model, jax.tree.map(np.asarray, params), x, y), usual, slice(0, middle))
    calibration, others, members = np.split(scores, [middle, len(held_out.y)])
    score = (
        f"margin of the label, less what {attack.references} models trained on {len(public.y)} public records expect"
    )
    return _record("model", score, members, calibration, others, allowance=_of_run(guarantees))


def _of_run(guarantees: Sequence[GuaranteeRecord]) -> Allowance:
    """Return what the strongest guarantee of the run allows to those who see its model."""
    finite = [g for g in guarantees if g.threat_model in SEES_MODELS and g.epsilon is not None]
    if not finite:
        reason = (
            "the run has no finite epsilon" if guarantees else "the run is not finished, so it has no guarantee yet"
        )
        return Allowance(words=f"nothing bounds it: {reason}")
    best = min(finite, key=lambda g: g.epsilon or 0.0)
    epsilon, delta = float(best.epsilon or 0.0), best.delta
    words = f"epsilon {epsilon:.3g} at delta {delta:g} for one {best.unit}, threat model {best.threat_model}"
    if best.unit == "client":
        epsilon, delta = of_pairs(epsilon, delta)
        words += f"; for one record of a client epsilon {epsilon:.3g} at delta {delta:.3g}"
    power = partial(approximate_power, epsilon, delta)
    return Allowance(words=words, power=power, epsilon=epsilon, delta=delta, threat_model=best.threat_model)


def _record(
    reads: str, score: str, members: Array, calibration: Array, others: Array, *, allowance: Allowance
) -> MembershipRecord:
    area = auc(members, others)
    return MembershipRecord(
        reads=reads,
        score=score,
        members=len(members),
        others=len(others),
        calibration=len(calibration),
        auc=area,
        auc_ci=auc_interval(area, len(members), len(others)),
        rates=tuple(rate_at(fpr, members, others, calibration, allowance.power) for fpr in FPRS),
        guarantee=allowance.words,
        mu=allowance.mu,
        epsilon=allowance.epsilon,
        delta=allowance.delta,
        threat_model=allowance.threat_model,
    )
