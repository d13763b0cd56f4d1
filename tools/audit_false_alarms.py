"""Audit a sound plan with many seeds and count what is refuted: `python -m tools.audit_false_alarms [N] [Z]`.

The setting is one that an audit comes close to refuting: every release holds the unit and the noise is as large as C.
A noise multiplier Z below 1 is a control: the plan then has that noise, and what is claimed of it is still that of 1.
Verdicts are appended to a file, so a killed run goes on.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradveil
from gradveil.auditing import audits
from gradveil.auditing.audit_record import overall
from gradveil.auditing.audits import Effort
from gradveil.auditing.mechanism_level import MechanismEffort
from gradveil.auditing.probe import staged
from gradveil.auditing.replayer import Replayer
from gradveil.auditing.subject import Subject, subject_of
from gradveil.methods import FED_CDP
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant

FOLDER = Path("artifacts") / "audits"
EFFORT = Effort(mechanism=MechanismEffort(releases=60_000, least=100, chunk=1000, longest=8))


def main(audited: int, noise: float) -> None:
    """Audit with the seeds that are missing; print how many of all were refuted, and how close they came."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    records = FOLDER / f"false-alarms-{noise:g}.jsonl"
    done = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
    subject = replace(_subject(1.0), plan=_subject(noise).plan)
    replayer = Replayer(staged(subject.plan, subject.dataset, EFFORT.mechanism.longest), 0, 0.5)
    with records.open("a", encoding="utf-8") as file:
        for seed in range(len(done), audited):
            rows = audits.simulated(subject, replayer, seed, EFFORT)
            worst = max(row.lower_bound / (row.claimed or 1.0) for row in rows)
            line = {"seed": seed, "verdict": overall(rows), "share": round(worst, 4)}
            print(json.dumps(line), file=file, flush=True)
    found = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()[:audited]]
    refuted = sum(one["verdict"] == "refuted" for one in found)
    shares = sorted(one["share"] for one in found)
    middle = shares[len(shares) // 2]
    print(f"{refuted} of {len(found)} refuted; lower bound over claim: median {middle}, most {shares[-1]}")


def _subject(noise: float) -> Subject:
    """Return one client of four records, all of them in its one release, against the server alone."""
    method = replace(FED_CDP, name="sound", clip=Flat(1.0), noise=Constant(noise))
    sizes: dict[str, Any] = {"clients": 1, "cohort": 1, "client_size": 4, "batch": 4, "rounds": 1, "sampling": "whole"}
    plan = gradveil.plan("digits", method, model=Mlp(hidden=(4,)), **sizes)
    subject = subject_of(plan, gradveil.dataset("digits"), "sound")
    return replace(subject, claims=tuple(claim for claim in subject.claims if claim.threat_model == "server"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
