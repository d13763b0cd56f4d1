"""Levels three and four: one real training run with canaries, seen from inside, and its final model alone."""

import time
from collections.abc import Callable

import numpy as np

from gradveil.auditing.audit_record import AuditRow
from gradveil.auditing.bounds import epsilon_of_mu, epsilon_of_one_run, mu_of_one_run
from gradveil.auditing.canaries import CanaryScores, trained_with_clients, trained_with_gradients, trained_with_records
from gradveil.auditing.composing import VIEWS
from gradveil.auditing.judging import row_of
from gradveil.auditing.probe import Host
from gradveil.auditing.subject import EpsilonClaim, Subject
from gradveil.data.sampling import FixedPass, Whole
from gradveil.federation.plan import Plan
from gradveil.models.regression import SoftmaxRegression
from gradveil.surface import Surface

Train = Callable[..., CanaryScores]
UNSUITED = {
    "one-run": "canaries change one tensor of a network, and this model is none",
    "black-box": "canaries are single records: this level has them for methods that noise examples of a network",
}


def one_run(subject: Subject, seed: int, confidence: float, canaries: int) -> list[AuditRow]:
    """Audit by gradient canaries, or by canary clients where a method noises updates.

    Against those who see updates they are scored by the updates, against others by the final model. A run over nodes is
    not trained again: it has shown what it shows of its canaries.
    """
    plan, heard = subject.plan, subject.heard
    if heard is not None:
        return _rows(subject, "one-run", lambda *_: heard, "example", seed, confidence, len(heard.inside))
    if plan.method.surface is not Surface.EXAMPLE:
        return _rows(subject, "one-run", trained_with_clients, "client", seed, confidence, canaries)
    most = min(canaries, plan.clients * plan.client_size // 2, len(subject.dataset.train) // 2)
    return _rows(subject, "one-run", trained_with_gradients, "example", seed, confidence, most)


def black_box(subject: Subject, seed: int, confidence: float, canaries: int) -> list[AuditRow]:
    """Audit by canary records and the final model alone, which every adversary sees."""
    plan = subject.plan
    most = min(canaries, plan.clients * plan.client_size // 2, len(subject.dataset.train) // 2)
    train = trained_with_records if plan.method.surface is Surface.EXAMPLE else None
    return _rows(subject, "black-box", train, "example", seed, confidence, most)


def _rows(
    subject: Subject, level: str, train: Train | None, unit: str, seed: int, confidence: float, canaries: int
) -> list[AuditRow]:
    began = time.perf_counter()
    tested = [claim for claim in subject.claims if claim.tested is not None]
    if train is None or isinstance(subject.plan.model, SoftmaxRegression):
        return [row_of(claim, level, 0.0, 0.0, confidence, UNSUITED[level], 0.0) for claim in tested]
    canary_scores = train(subject.plan, subject.dataset, canaries, seed)
    seconds = (time.perf_counter() - began) / max(len(tested), 1)
    always = in_every_release(subject.plan)
    return [_row(claim, level, canary_scores, unit, always, confidence, seconds) for claim in tested]


def in_every_release(plan: Plan) -> bool:
    """Whether nothing is drawn but noise, so that what a run shows of a unit is Gaussian for every adversary."""
    batches = plan.method.surface is not Surface.EXAMPLE or isinstance(plan.sampling, Whole | FixedPass)
    return batches and plan.cohort == plan.clients and not plan.method.sensitivity.data_dependent


def _row(
    claim: EpsilonClaim,
    level: str,
    canary_scores: CanaryScores,
    unit: str,
    always: bool,
    confidence: float,
    seconds: float,
) -> AuditRow:
    """Guess for half of the canaries; two scores are used in all, so each is judged at half of the miss."""
    scores = canary_scores.model if VIEWS[claim.threat_model] == "model" else canary_scores.update
    guesses, correct = guessed(scores, canary_scores.inside)
    each, m = 1 - (1 - confidence) / 2, len(scores)

    def bound(right: int) -> float:
        if claim.unit != unit:
            return 0.0
        if always:
            return epsilon_of_mu(mu_of_one_run(m, guesses, right, each), claim.delta)
        return epsilon_of_one_run(m, guesses, right, claim.delta, each)

    canaries = "canary clients" if unit == "client" else "canaries"
    why = f"{m} {canaries} in one run, {correct} of {guesses} guesses right{', Gaussian f-DP' if always else ''}"
    return row_of(claim, level, bound(correct), bound(guesses), confidence, why, seconds)


def guessed(scores: Host, inside: Host) -> tuple[int, int]:
    """Guess "in" for the quarter of highest scores and "out" for that of lowest: how many guesses, how many right."""
    order, quarter = np.argsort(scores, kind="stable"), len(scores) // 4
    right = int(np.sum(~inside[order[:quarter]])) + int(np.sum(inside[order[len(order) - quarter :]]))
    return 2 * quarter, right
