"""Level `mechanism` for secure sums: runs of the whole protocol with a worst unit and without it, told apart.

Real nodes' code makes cards, noise and masks, and the server's adds the answers up. Many runs go through one attempt, a
few coordinates for each. Colluding nodes draw from bytes that the adversary knows, and it subtracts what they drew.
"""

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from gradveil.aggregation import ring
from gradveil.aggregation.answering import Contribution, answer
from gradveil.aggregation.collecting import collected
from gradveil.aggregation.epoch import Crowd, Epochs
from gradveil.aggregation.masks import Attempt, state_digest
from gradveil.aggregation.noise import discrete_gaussian, seeded_bytes, share_deviation
from gradveil.aggregation.ring import Reals
from gradveil.aggregation.roster import KeyRoster, key_line
from gradveil.auditing.audit_record import AuditRow
from gradveil.auditing.judging import row_of
from gradveil.auditing.mechanism_level import MechanismEffort
from gradveil.auditing.neighbors import LOUD
from gradveil.auditing.probe import Host
from gradveil.auditing.subject import LOUD_DELTA, EpsilonClaim, Subject
from gradveil.auditing.telling import Scores, told_apart
from gradveil.federation.plan import Plan
from gradveil.federation.secure_sum import SecureSum

COORDINATES = 2
_PLAN = hashlib.sha256(b"audit").hexdigest()


class SeenSum(NamedTuple):
    """A sum less what is known of it, [runs, d] in units of C, to those who collude with nobody, t nodes, or all."""

    model: Host
    aggregate: Host
    alone: Host


VIEWS = {"central": "model", "central-visible": "model", "client-central": "model", "aggregate": "aggregate"}
"""By adversary; to all others a node is alone."""


def masked_rows(subject: Subject, seed: int, confidence: float, effort: MechanismEffort) -> list[AuditRow]:
    """Return a row for each claim, and one at a larger delta if it is refuted there."""
    plan, tested = subject.plan, [claim for claim in subject.claims if claim.tested is not None]
    each = 1 - (1 - confidence) / (2 * max(len(tested), 1))
    rounds = min(plan.rounds, subject.participations)
    rows: list[AuditRow] = []
    for units in sorted({_units(plan, claim) for claim in tested}):
        began, claims = time.perf_counter(), [claim for claim in tested if _units(plan, claim) == units]
        scores = simulated(plan, units, rounds, runs_of(rounds, effort), seed)
        spent = (time.perf_counter() - began) / len(claims)
        for claim in claims:
            rows += _mechanism_rows(
                subject, claim, scores[VIEWS.get(claim.threat_model, "alone")], (each, confidence), spent
            )
    return rows


def _units(plan: Plan, claim: EpsilonClaim) -> int:
    """Return how many records the unit of a claim is."""
    return plan.client_size if claim.unit == "client" else 1


def runs_of(rounds: int, effort: MechanismEffort) -> int:
    """Return how many runs of so many rounds are simulated of each neighbor."""
    return int(np.clip(effort.releases // (2 * max(rounds, 1)), effort.least, effort.most))


def _mechanism_rows(
    subject: Subject, claim: EpsilonClaim, statistics: tuple[Scores, ...], confidence: tuple[float, float], spent: float
) -> list[AuditRow]:
    runs, (each, all_rows) = len(statistics[0].present), confidence
    why = f"{runs} runs of the protocol with the unit and {runs} without"
    bounds = told_apart(statistics, claim.delta, each)
    rows = [row_of(claim, "mechanism", bounds.bound, bounds.ceiling, all_rows, why, spent)]
    loud = replace(claim, delta=LOUD_DELTA, epsilon=subject.at(claim, LOUD_DELTA))
    bounds = told_apart(statistics, LOUD_DELTA, each)
    row = row_of(loud, "mechanism", bounds.bound, bounds.ceiling, all_rows, why, 0.0)
    return [*rows, row] if row.verdict == "refuted" else rows


def simulated(plan: Plan, units: int, rounds: int, runs: int, seed: int) -> dict[str, tuple[Scores, Scores]]:
    """Return two statistics of all rounds by what is seen: the log-likelihood ratio, and the sum of squares.

    Up to constants they are sum_t <release_t, v> / z_t^2 and sum_t ||release_t||^2 / z_t^2; the second shows noise that
    follows the unit.
    """
    if plan.secure_sum is None:
        return {}
    multipliers, by_world = plan.sigmas()[:rounds, 0], []
    unit = np.full(COORDINATES, LOUD / math.sqrt(COORDINATES))
    for world, vectors in enumerate((np.tile(unit, (units, 1)), np.zeros((units, COORDINATES)))):
        there, scores = ring.bounded_sum(vectors, 1.0), np.zeros((len(SeenSum._fields), 2, runs))
        for t, z in enumerate(multipliers):
            seen = _seen(plan.secure_sum, float(z), there, runs, (seed, world, t))
            scores += np.stack([(view @ unit / z**2, np.square(view).sum(axis=1) / z**2) for view in seen])
        by_world.append(scores)
    present, absent = by_world
    return {
        name: (Scores(present[i, 0], absent[i, 0]), Scores(present[i, 1], absent[i, 1]))
        for i, name in enumerate(SeenSum._fields)
    }


def _seen(sums: SecureSum, multiplier: float, there: Reals, runs: int, seeds: tuple[int, int, int]) -> SeenSum:
    """Make one attempt: the first node holds the unit, the last t collude, and between them are honest ones."""
    names = [f"node-{i:03d}" for i in range(sums.nodes)]
    epochs = _epochs(names, sums)
    size, records = len(there) * runs, 1
    attempt = Attempt(
        run="0" * 32,
        plan=_PLAN,
        serial=0,
        round=0,
        size=size,
        tolerated=sums.colluders,
        state=state_digest([]),
        cards=tuple(node.introduce("0" * 32, _PLAN) for node in epochs),
    )
    share = share_deviation(multiplier, size, records, sums.nodes, sums.colluders)
    sources = [seeded_bytes(*seeds, i) for i in range(sums.nodes)]
    own = [np.tile(there, runs), *(np.zeros(size) for _ in names[1:])]
    answers = {
        name: answer(node, attempt, _of(multiplier, vector), lambda _: None, within=math.inf, take=take)
        for name, node, vector, take in zip(names, epochs, own, sources, strict=True)
    }
    most = float(np.abs(there).max()) + records
    total = ring.decode(collected(attempt, answers, math.ceil(most), share * sums.nodes), 1.0)
    known = [discrete_gaussian(share, size, seeded_bytes(*seeds, i)) / ring.RESOLUTION for i in range(1, sums.nodes)]
    views = (total, total - sum(known[-sums.colluders :]), total - sum(known))
    return SeenSum(*(one.reshape(runs, len(there)) for one in views))


def _of(multiplier: float, vector: Reals) -> Contribution:
    return Contribution(multiplier=multiplier, records=1, compute=lambda: vector)


def _epochs(names: Sequence[str], sums: SecureSum) -> list[Epochs]:
    signers = [ec.generate_private_key(ec.SECP384R1()) for _ in names]
    keys = {name: key_line(signer.public_key()) for name, signer in zip(names, signers, strict=True)}
    crowd = Crowd(tolerated=sums.colluders, minimum_nodes=sums.fewest)
    return [Epochs(KeyRoster(keys), signer, crowd) for signer in signers]
