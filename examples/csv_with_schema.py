"""A CSV file with a schema: draft it, make its values public, train without a caveat about the data, read new rows.

python examples/csv_with_schema.py
"""

import random
import tempfile
from dataclasses import replace
from pathlib import Path

import gradveil
from gradveil.data.schema_data import read_table
from gradveil.data.schema_draft import drafted
from gradveil.data.schema_encoding import encode
from gradveil.data.schema_text import read_schema, schema_toml
from gradveil.data.table_schema import CategoryColumn, DateColumn, NumberColumn, SchemaColumn

PUBLIC: dict[str, SchemaColumn] = {
    "age": NumberColumn("age", 0, 120),
    "ward": CategoryColumn("ward", ("heart", "lung", "surgery"), missing="flag"),
    "admitted": DateColumn("admitted", ("days", "year"), "2023-01-01", "2025-12-31"),
}
"""What is known of these columns without looking at a patient."""


def main() -> tuple[float, float]:
    """Return the test accuracy and the epsilon against the server."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "patients.csv"
        table.write_text(patients(800))

        draft = drafted(read_table(table), target="readmitted")
        columns = tuple(PUBLIC.get(column.name, column) for column in draft.columns)
        (Path(folder) / "schema.toml").write_text(schema_toml(replace(draft, columns=columns, public=True)))

        schema = read_schema(Path(folder) / "schema.toml")
        plan = gradveil.plan(table, "fed-cdp", schema=schema, rounds=40, max_epsilon=4.0)
        model = gradveil.train(plan)

        new = Path(folder) / "new.csv"
        new.write_text("age,ward,admitted\n81,heart,2024-05-06\n23,lung,2024-05-07\n")
        for number in model.predict(encode(schema, read_table(new))):
            print("readmitted:", model.classes[number])

    guarantee = model.result.guarantee("server")
    accuracy = model.result.accuracy or 0.0  # none where a number is predicted
    print(f"accuracy {accuracy:.2f}, epsilon {guarantee.epsilon:.2f} at delta {guarantee.delta}")
    print("caveats:", *guarantee.caveats, sep="\n  ")
    return accuracy, guarantee.epsilon or 0.0


def patients(count: int) -> str:
    """Return a made-up table: patients above 60 come back more often."""
    draw = random.Random(1)
    lines = ["patient_id,age,ward,admitted,readmitted"]
    for i in range(count):
        age, ward = draw.randint(18, 95), draw.choice(["heart", "lung", "surgery", ""])
        back = draw.random() < (0.9 if age > 60 else 0.1)
        lines.append(f"{1000 + i},{age},{ward},2024-{draw.randint(1, 12):02d}-01,{'yes' if back else 'no'}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
