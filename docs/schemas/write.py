"""Write the JSON Schemas of what gradveil prints and stores: of the dataclass of a record, or as the package has it."""

from importlib.resources import files
from pathlib import Path

from gradveil.auditing.audit_record import AuditRecord
from gradveil.leakage.attack_record import AttackRecord
from gradveil.reproduction.cell import CellRecord
from gradveil.reproduction.sound_cells import SoundRecord
from gradveil.runs.run_records import RoundLine, RunResult
from gradveil.schema import schema_text

SCHEMAS = {
    "attack-record": AttackRecord,
    "audit-record": AuditRecord,
    "cell": CellRecord,
    "round-line": RoundLine,
    "run-result": RunResult,
    "sound-record": SoundRecord,
}
"""By file name, without .schema.json."""
SHIPPED = {"privacy-card": files("gradveil.reports").joinpath("privacy_card.schema.json")}
"""Schemas that are files of the package, since cards are checked by them."""

if __name__ == "__main__":
    for name, record in SCHEMAS.items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(schema_text(record))
    for name, shipped in SHIPPED.items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(shipped.read_text(encoding="utf-8"))
