"""Levels three and four: one real training run with canaries, seen from inside, and its final model alone."""

import time
from collections.abc import Callable

import numpy as np

from gradveil.auditing.audit_record import AuditRow
from gradveil.auditing.bounds import epsilon_of_one_run
from gradveil.auditing.canaries import CanaryScores, trained_with_gradients, trained_with_records
from gradveil.auditing.composing import VIEWS
from gradveil.auditing.judging import row_of
from gradveil.auditing.probe import Host
from gradveil.auditing.subject import EpsilonClaim, Subject
from gradveil.models.regression import SoftmaxRegression
from gradveil.surface import Surface

Train = Callable[..., CanaryScores]
UNSUITED = "canaries are single records among others: this level has them for methods that noise examples of a network"


def one_run(subject: Subject, seed: int, confidence: float, canaries: int) -> list[AuditRow]:
    """Audit by gradient canaries: against those who see updates by the updates, against others by the final model."""
    return _rows(subject, "one-run", trained_with_gradients, seed, confidence, canaries)


def black_box(subject: Subject, seed: int, confidence: float, canaries: int) -> list[AuditRow]:
    """Audit by canary records and the final model alone, which every adversary sees."""
    return _rows(subject, "black-box", trained_with_records, seed, confidence, canaries)


def _rows(subject: Subject, level: str, train: Train, seed: int, confidence: float, canaries: int) -> list[AuditRow]:
    began = time.perf_counter()
    tested = [claim for claim in subject.claims if claim.tested is not None]
    plan = subject.plan
    if plan.method.surface is not Surface.EXAMPLE or isinstance(plan.model, SoftmaxRegression):
        return [row_of(claim, level, 0.0, 0.0, confidence, UNSUITED, 0.0) for claim in tested]
    most = min(canaries, plan.clients * plan.client_size // 2, len(subject.dataset.train) // 2)
    shown = train(plan, subject.dataset, most, seed)
    seconds = (time.perf_counter() - began) / max(len(tested), 1)
    return [_row(claim, level, shown, confidence, seconds) for claim in tested]


def _row(claim: EpsilonClaim, level: str, shown: CanaryScores, confidence: float, seconds: float) -> AuditRow:
    """Guess for half of the canaries; two scores are used in all, so each is judged at half of the miss."""
    scores = shown.model if VIEWS[claim.threat_model] == "model" else shown.update
    guesses, correct = guessed(scores, shown.inside)
    each, m = 1 - (1 - confidence) / 2, len(scores)
    lower = epsilon_of_one_run(m, guesses, correct, claim.delta, each) if claim.unit == "example" else 0.0
    ceiling = epsilon_of_one_run(m, guesses, guesses, claim.delta, each) if claim.unit == "example" else 0.0
    why = f"{m} canaries in one run, {correct} of {guesses} guesses right"
    return row_of(claim, level, lower, ceiling, confidence, why, seconds)


def guessed(scores: Host, inside: Host) -> tuple[int, int]:
    """Guess "in" for the quarter of highest scores and "out" for that of lowest: how many guesses, how many right."""
    order, quarter = np.argsort(scores, kind="stable"), len(scores) // 4
    right = int(np.sum(~inside[order[:quarter]])) + int(np.sum(inside[order[len(order) - quarter :]]))
    return 2 * quarter, right
