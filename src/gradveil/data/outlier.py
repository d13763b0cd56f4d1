"""A dataset loaded again with one training record changed: what of the others changes was taken from that record."""

import csv
import tempfile
from pathlib import Path

from gradveil.data import tabular_datasets, user_csv, user_data
from gradveil.data.class_names import number
from gradveil.data.dataset import Dataset
from gradveil.data.split import quarter
from gradveil.data.table_schema import Schema

FAR = 1e6
"""By what the numbers of the record are multiplied."""


def load_with_outlier(name: str, target: str | None, schema: Schema | None = None) -> Dataset | None:
    """Load a dataset whose first training record is far from all others; its label, and so the split, is the same.

    None where the loader reads no statistics that could be replayed: built-in datasets that public constants scale,
    tables with a schema, and files whose numbers are used as they are.
    """
    if schema is not None:
        return None
    if name == "cancer":
        return tabular_datasets.cancer(FAR)
    path = Path(name).expanduser()
    return _of_table(path, target) if path.suffix.lower() == ".csv" and path.is_file() else None


def _of_table(path: Path, target: str | None) -> Dataset:
    """Load a copy of a table in which the record is changed, by the loader that loads the table."""
    table = user_csv.read(path, target, lambda share: None)
    train, _ = quarter(number(table.labels, str(path))[0])
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *records = (row for row in csv.reader(file, delimiter=table.separator) if row)
    at = int(table.records[train[0]])
    records[at] = [
        text if name.strip() == target else _far(text) for name, text in zip(header, records[at], strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        with copy.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=table.separator, quoting=csv.QUOTE_ALL).writerows([header, *records])
        return Dataset(**user_data.fields_of(copy, target))


def _far(text: str) -> str:
    """Return a number far away from the one that a text states; other text stays."""
    value = user_csv.as_number(text)
    return text if value != value else repr(FAR * (value or 1.0))
