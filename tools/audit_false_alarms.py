"""Audit sound plans with many seeds and count what is refuted: `python -m tools.audit_false_alarms [N] [Z] [CASE,...]`.

The settings are ones that an audit comes close to refuting: every release holds the unit, and noise is as large as C.
A noise multiplier Z below 1 is a control: the plan then has that noise, and what is claimed of it is still that of 1.
Verdicts are appended to a file for each case, so a killed run goes on.
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
from gradveil.methods import FED_CDP, FED_SDP, FED_SDP_CLIENT
from gradveil.models.networks import Mlp
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant
from gradveil.privacy.slack import Slack

FOLDER = Path("artifacts") / "audits"
EFFORT = Effort(mechanism=MechanismEffort(releases=60_000, least=100, chunk=1000, longest=8))
CASES: dict[str, tuple[Method, str]] = {
    "flat": (replace(FED_CDP, clip=Flat(1.0)), "server"),
    "per-layer": (replace(FED_CDP, clip=PerLayer(1.0)), "server"),
    "slack": (replace(FED_CDP, clip=Slack(1.0)), "server"),
    "adaclip": (replace(FED_CDP, clip=AdaClip(1.0)), "server"),
    "server": (replace(FED_SDP, clip=Flat(1.0)), "central"),
    "server-quantile": (replace(FED_SDP, clip=Quantile(1.0, count_noise=1.0)), "central"),
    "server-slack": (replace(FED_SDP, clip=Slack(1.0)), "central"),
    "update-slack": (replace(FED_SDP_CLIENT, clip=Slack(1.0)), "server"),
}
"""A method that is audited, and against whom."""


def main(audited: int, noise: float, cases: tuple[str, ...]) -> None:
    """Audit each case with the seeds that are missing; print how many were refuted, and how close they came."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in cases:
        found = _audited(case, audited, noise)
        refuted = sum(one["verdict"] == "refuted" for one in found)
        shares = sorted(one["share"] for one in found)
        middle = shares[len(shares) // 2]
        told = f"lower bound over claim: median {middle}, most {shares[-1]}"
        print(f"{case}: {refuted} of {len(found)} refuted; {told}", flush=True)


def _audited(case: str, audited: int, noise: float) -> list[dict[str, Any]]:
    records = FOLDER / f"false-alarms-{case}-{noise:g}.jsonl"
    done = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
    subject = replace(_subject(case, 1.0), plan=_subject(case, noise).plan)
    replayer = Replayer(staged(subject.plan, subject.dataset, EFFORT.mechanism.longest), 0, 0.5)
    with records.open("a", encoding="utf-8") as file:
        for seed in range(len(done), audited):
            rows = audits.simulated(subject, replayer, seed, EFFORT)
            worst = max(row.lower_bound / (row.claimed or 1.0) for row in rows)
            line = {"seed": seed, "verdict": overall(rows), "share": round(worst, 4)}
            print(json.dumps(line), file=file, flush=True)
    return [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()[:audited]]


def _subject(case: str, noise: float) -> Subject:
    """Return one client of four records, all of them in its one release, against one adversary."""
    method, threat = CASES[case]
    sizes: dict[str, Any] = {"clients": 1, "cohort": 1, "client_size": 4, "batch": 4, "rounds": 1, "sampling": "whole"}
    named = replace(method, name=case, noise=Constant(noise))
    plan = gradveil.plan("digits", named, model=Mlp(hidden=(4,)), **sizes)
    subject = subject_of(plan, gradveil.dataset("digits"), case)
    return replace(subject, claims=tuple(claim for claim in subject.claims if claim.threat_model == threat))


if __name__ == "__main__":
    given = dict(enumerate(sys.argv[1:]))
    main(int(given.get(0, 200)), float(given.get(1, 1.0)), tuple(given.get(2, ",".join(CASES)).split(",")))
