"""From a subject to its record: the levels, cheapest first, a row for each guarantee at each of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec

from gradveil import codec
from gradveil.auditing.audit_record import AuditRecord, AuditRow, overall
from gradveil.auditing.bounds import MOST_EPSILON
from gradveil.auditing.composing import BY_DRAW, VIEWS, lower_bound
from gradveil.auditing.encodings import MovedOthers, moved_others, of_encoding
from gradveil.auditing.judging import row_of
from gradveil.auditing.mechanism_level import Attendance, MechanismEffort, simulate
from gradveil.auditing.neighbors import LOUD, Neighbors
from gradveil.auditing.one_run_levels import black_box, in_every_release, one_run
from gradveil.auditing.probe import Probe, staged
from gradveil.auditing.replay_level import FALSE_ALARMS, ReplayEffort, RoundFinding, replay
from gradveil.auditing.replayer import Replayer
from gradveil.auditing.stopping import uncovered
from gradveil.auditing.subject import LOUD_DELTA, EpsilonClaim, Subject
from gradveil.auditing.telling import Scores, mu_told, told_apart
from gradveil.errors import BadInput
from gradveil.fields import whole
from gradveil.surface import Surface

Tell = Callable[[str], None]
LEVELS = ("replay", "mechanism", "one-run", "black-box")
"""From the cheapest on."""
MECHANISM = "mechanism"
USUAL = ("replay", MECHANISM)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much each level does, and the confidence of levels that draw: of all rows of a level together."""

    confidence: float = 0.95
    replay: ReplayEffort = field(default_factory=ReplayEffort)
    mechanism: MechanismEffort = field(default_factory=MechanismEffort)
    canaries: int = 400

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise BadInput(f"confidence = {self.confidence}: must be at least 0.5 and below 1")
        whole("victims", self.canaries, 8, 100_000)


USUAL_EFFORT = Effort()


def audit(
    subject: Subject,
    levels: Sequence[str] = USUAL,
    seed: int = 0,
    effort: Effort = USUAL_EFFORT,
    tell: Tell = lambda level: None,
) -> AuditRecord:
    """Audit a subject at some levels; `tell` is called with the name of each before it begins."""
    if subject.on_nodes:
        _refuse_unheard(subject, levels)
    rows: list[AuditRow] = []
    if subject.plan.secure_sum is not None and MECHANISM not in levels:
        raise BadInput(f"level = {', '.join(levels)}: secure sums are audited at the level {MECHANISM} only")
    possible = LEVELS if subject.plan.secure_sum is None else (MECHANISM,)
    for level in (one for one in possible if one in levels):
        tell(level)
        rows += RUNNERS[level](subject, seed, effort)
    if (rest := uncovered(subject.plan, subject.dataset)) is not None:
        rows = [replace(row, why=f"{row.why}; {rest}") for row in rows]
    return AuditRecord(
        verdict=overall(rows),
        rows=tuple(rows),
        subject=subject.name,
        dataset=subject.plan.dataset,
        plan_sha256=codec.digest(subject.plan),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        seed=seed,
    )


def _refuse_unheard(subject: Subject, levels: Sequence[str]) -> None:
    """Refuse levels that train: the records are on nodes. What canaries in the run showed is there already, or not."""
    for level in levels:
        if level == "black-box" or (level == "one-run" and subject.heard is None):
            lacks = (
                "whose records are no canaries"
                if level == "black-box"
                else "without canaries (`federate server --canaries`)"
            )
            raise BadInput(
                f"level = {level}: {subject.name} was trained on nodes, {lacks}; a copy of its plan with data of this "
                "machine can be audited"
            )


def _replayed(subject: Subject, seed: int, effort: Effort) -> list[AuditRow]:
    began, stage = time.perf_counter(), staged(subject.plan, subject.dataset, effort.replay.longest)
    findings = replay(stage, effort.replay, seed)
    moved = moved_others(subject, stage, effort.replay, seed)
    spent = (time.perf_counter() - began) / max(len(subject.claims), 1)
    return [_replayed_row(subject, claim, findings, moved, spent) for claim in subject.claims]


def _replayed_row(
    subject: Subject, claim: EpsilonClaim, findings: list[RoundFinding], moved: MovedOthers | None, spent: float
) -> AuditRow:
    began = time.perf_counter()
    rounds = subject.rounds, subject.participations
    by_rounds = lower_bound(subject.plan, findings, claim.threat_model, *rounds, claim.delta)
    strongest = max(by_rounds, of_encoding(moved, claim), key=lambda one: one.epsilon)
    seconds = spent + time.perf_counter() - began
    return row_of(claim, "replay", strongest.epsilon, MOST_EPSILON, 1 - FALSE_ALARMS, strongest.why, seconds)


def _simulated(subject: Subject, seed: int, effort: Effort) -> list[AuditRow]:
    if subject.plan.secure_sum is not None:
        return _masked(subject, seed, effort)
    replayer = Replayer(staged(subject.plan, subject.dataset, effort.mechanism.longest), seed, 0.5)
    return simulated(subject, replayer, seed, effort)


def _masked(subject: Subject, seed: int, effort: Effort) -> list[AuditRow]:
    """Simulate the protocol of a secure sum, for which packages are needed that not every installation has."""
    if find_spec("cryptography") is None:
        raise BadInput('secure_sum: its audit needs the protocol; install it with: pip install "gradveil[flower]"')
    from gradveil.auditing.masked_sums import masked_rows

    return masked_rows(subject, seed, effort.confidence, effort.mechanism)


def simulated(subject: Subject, replayer: Replayer, seed: int, effort: Effort) -> list[AuditRow]:
    """Simulate what each adversary sees, once for those who see the same, and only where something is claimed."""
    tested = [claim for claim in subject.claims if claim.tested is not None and _noised(subject, claim)]
    groups: dict[tuple[str, bool, Attendance], list[EpsilonClaim]] = {}
    for claim in tested:
        groups.setdefault(_seen(subject, claim), []).append(claim)
    each = 1 - (1 - effort.confidence) / (2 * max(len(tested), 1))
    rows: list[AuditRow] = []
    for (sees, everyone, attends), claims in groups.items():
        began = time.perf_counter()
        pair = Neighbors((LOUD,) * _layers(replayer), whole=everyone)
        scores = simulate(replayer, pair, sees, effort.mechanism, seed, attends)
        spent = (time.perf_counter() - began) / len(claims)
        for claim in claims:
            rows += _mechanism_rows(subject, claim, scores, each, effort.confidence, spent)
    return rows


def _noised(subject: Subject, claim: EpsilonClaim) -> bool:
    """Whether the adversary sees something noised: gradients inside a client that noises its update are not."""
    return VIEWS[claim.threat_model] != "steps" or subject.plan.method.surface is Surface.EXAMPLE


def _seen(subject: Subject, claim: EpsilonClaim) -> tuple[str, bool, Attendance]:
    everyone = claim.threat_model.startswith("client") or subject.plan.method.surface is not Surface.EXAMPLE
    return "model" if VIEWS[claim.threat_model] == "model" else "update", everyone, _attendance(subject, claim)


def _attendance(subject: Subject, claim: EpsilonClaim) -> Attendance:
    """Return when the unit's client takes part: by the draw of cohorts, or as often as the busiest client does."""
    plan = subject.plan
    if claim.threat_model in BY_DRAW:
        return Attendance(subject.rounds, plan.cohort / plan.clients if plan.cohort < plan.clients else None)
    return Attendance(min(subject.rounds, subject.participations))


def _layers(replayer: Replayer) -> int:
    model = replayer.stage.plan.model
    return len(model.sizes) if isinstance(model, Probe) else 1


def _mechanism_rows(
    subject: Subject, claim: EpsilonClaim, scores: dict[str, Scores], each: float, confidence: float, spent: float
) -> list[AuditRow]:
    """Return the row of a claim, and one at a larger delta if it is refuted there."""
    own = scores["known" if claim.threat_model in _told_draws(subject) else "secret"]
    statistics, runs = (own, scores["energy"]), len(own.present)
    why = f"{runs} simulated runs with the unit and {runs} without{_gaussian(subject, statistics, each)}"
    bounds = told_apart(statistics, claim.delta, each)
    rows = [row_of(claim, "mechanism", bounds.bound, bounds.ceiling, confidence, why, spent)]
    if claim.epsilon is not None:
        loud = replace(claim, delta=LOUD_DELTA, epsilon=subject.at(claim, LOUD_DELTA))
        bounds = told_apart(statistics, LOUD_DELTA, each)
        row = row_of(loud, "mechanism", bounds.bound, bounds.ceiling, confidence, why, 0.0)
        rows += [row] if row.verdict == "refuted" else []
    return rows


def _told_draws(subject: Subject) -> tuple[str, ...]:
    """Return who is told which batches hold the unit, and which cohorts its client where not all are in each."""
    return ("type2-known", *(("central-visible",) if subject.plan.cohort < subject.plan.clients else ()))


def _gaussian(subject: Subject, statistics: tuple[Scores, ...], each: float) -> str:
    """Say how large the mu of all rounds is at least, where nothing but noise is drawn, so that there is one."""
    if not in_every_release(subject.plan):
        return ""
    return f", which show mu >= {mu_told(statistics, each):.4f} of Gaussian noise"


def _with_gradients(subject: Subject, seed: int, effort: Effort) -> list[AuditRow]:
    return one_run(subject, seed, effort.confidence, effort.canaries)


def _with_records(subject: Subject, seed: int, effort: Effort) -> list[AuditRow]:
    return black_box(subject, seed, effort.confidence, effort.canaries)


RUNNERS: dict[str, Callable[[Subject, int, Effort], list[AuditRow]]] = {
    "replay": _replayed,
    "mechanism": _simulated,
    "one-run": _with_gradients,
    "black-box": _with_records,
}
