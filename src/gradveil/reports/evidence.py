"""Everything that a run folder holds, read once: what pages and cards are made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gradveil import codec
from gradveil.auditing.audit_record import AUDIT, AuditRecord, AuditRow
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.leakage.attack_record import AttackRecord
from gradveil.reports.exhibits import Exhibit
from gradveil.runs import store
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.run_records import RoundLine, RunResult

SURFACES = (2, 1, 0)
"""In the order that a gradient passes them: in training, as an update, at the server."""
WHERE = {2: "in local training", 1: "at the client's update", 0: "at the server"}


@dataclass(frozen=True, slots=True, eq=False)
class AttackEvidence:
    """An attack on a run: its record, and what it has to show if that was kept."""

    record: AttackRecord
    exhibit: Exhibit | None


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A run as its folder tells it; result is None while it is not over."""

    folder: Path
    plan: Plan
    lines: list[RoundLine]
    result: RunResult | None
    data: store.DataRecord
    environment: store.EnvironmentRecord
    attacks: list[AttackEvidence]
    audit: AuditRecord | None = None

    @property
    def method(self) -> str:
        """Name the protection."""
        return self.plan.method.name

    @property
    def name(self) -> str:
        """Name the run on a page with others."""
        return self.method if self.method == self.folder.name else f"{self.method} ({self.folder.name})"

    @property
    def own(self) -> bool:
        """Whether it was trained on a user's own data, of which nothing is shown unasked."""
        return self.data.own

    @property
    def accuracy(self) -> float | None:
        """The accuracy of the last round."""
        return self.lines[-1].accuracy if self.lines else None

    @property
    def guarantee(self) -> GuaranteeRecord | None:
        """What holds against the adversary that the plan names."""
        guarantees = () if self.result is None else self.result.guarantees
        return next((g for g in guarantees if g.threat_model == self.plan.threat_model), None)

    @property
    def plan_unit(self) -> str:
        """What one unit of the plan's guarantee is."""
        return "example" if self.guarantee is None else self.guarantee.unit

    def measured(self, guarantee: GuaranteeRecord) -> AuditRow | None:
        """Return what an audit of the run says most of a guarantee: the row with the largest lower bound."""
        rows = () if self.audit is None else self.audit.rows
        own = [
            r
            for r in rows
            if (r.threat_model, r.unit, r.delta) == (guarantee.threat_model, guarantee.unit, guarantee.delta)
        ]
        return max(own, key=lambda row: row.lower_bound, default=None)

    def strongest(self, surface: int) -> AttackEvidence | None:
        """Return the attack that says most at a surface: one that found a leak, else an unclear one, else any."""
        there = [one for one in self.attacks if one.record.surface == surface]
        rank = {"leaks": 2, "too-few-victims": 1, "nothing-found": 0}
        return max(there, key=lambda one: (rank[one.record.verdict], one.record.gain), default=None)

    @property
    def leakage(self) -> float | None:
        """The largest share of the prior-only error that any attack took away, at any surface; 0 if none gained."""
        judged = [one.record for one in self.attacks if one.record.prior_rmse > 0]
        return max((max(0.0, r.gain) / r.prior_rmse for r in judged), default=None)


def gather(folder: Path, exhibits: bool = True) -> Evidence:
    """Read a run folder; without `exhibits`, what attacks have to show is left on the disk."""
    plan = store.read_plan(folder)
    history = store.inspect(folder, plan)
    return Evidence(
        folder=folder,
        plan=plan,
        lines=history.lines,
        result=store.read_result(folder, history.heads[-1]),
        data=store.read_data(folder),
        environment=store.read_environment(folder),
        attacks=list(_attacks(folder / "attacks", exhibits)),
        audit=_audit(folder / AUDIT, plan),
    )


def _audit(path: Path, plan: Plan) -> AuditRecord | None:
    """Read the audit of a run; one of another plan, as before more rounds were trained, says nothing of this one."""
    if not store.exists(path):
        return None
    record = store.read_record(path, AuditRecord)
    return record if record.plan_sha256 == codec.digest(plan) else None


def _attacks(folder: Path, exhibits: bool) -> Iterable[AttackEvidence]:
    for path in sorted(folder.glob("*.json")):
        exhibit = path.with_suffix(".npz")
        content = Exhibit.load(exhibit) if exhibits and exhibit.exists() else None
        yield AttackEvidence(store.read_record(path, AttackRecord), content)


def folders_in(folder: Path) -> list[Path]:
    """Return the run folders that a path stands for: itself, or the runs of a demonstration below it."""
    if (folder / store.PLAN).exists():
        return [folder]
    below = sorted(path.parent for path in folder.glob(f"*/{store.PLAN}"))
    if not below:
        raise BadInput(f"{str(folder)!r}: is not a run folder, and holds none")
    return below
