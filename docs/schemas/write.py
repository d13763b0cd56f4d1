"""Write the JSON Schemas of what gradveil prints and stores, each made from the dataclass of the record."""

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

if __name__ == "__main__":
    for name, record in SCHEMAS.items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(schema_text(record))
