"""A schema encodes each row by itself and by public facts; what it cannot read it names by line and column."""

import math
from datetime import date

import numpy as np
import pytest

from gradveil import codec
from gradveil.data.schema_draft import class_counts, drafted, readings
from gradveil.data.schema_encoding import encode, spans, targets
from gradveil.data.schema_text import FROM_ROWS, draft_toml, read_schema, schema_toml
from gradveil.data.sources import load
from gradveil.data.table_rows import NOT_PUBLIC
from gradveil.data.table_schema import (
    CategoryColumn,
    ClassTarget,
    DateColumn,
    IgnoredColumn,
    NumberColumn,
    NumberTarget,
    Schema,
)
from gradveil.data.user_csv import read_whole
from gradveil.errors import BadInput

HEADER = "id,age,ward,day,sick"
SCHEMA = Schema(
    ClassTarget("sick", ("no", "yes")),
    (
        IgnoredColumn("id", "identifier"),
        NumberColumn("age", 0, 100),
        CategoryColumn("ward", ("a", "b", "c"), "flag"),
        DateColumn("day", ("days", "year", "week"), "2024-01-01", "2024-12-31"),
    ),
    public=True,
)


def _file(folder, rows, header=HEADER, name="t.csv"):
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def _rows(n=40):
    return [
        f"{i},{20 + i % 39},{'abc'[i % 3]},2024-{1 + i % 12:02d}-{1 + i % 28:02d},{'yes' if i % 4 else 'no'}"
        for i in range(n)
    ]


def _both(table):
    return encode(SCHEMA, table), targets(SCHEMA, table)


def _encoded(folder, row, schema=SCHEMA):
    return encode(schema, read_whole(_file(folder, [row])))[0]


def test_a_row_becomes_what_is_computed_by_hand(tmp_path):
    # 2024-02-29, a Thursday, is day 59 of 366 counted from 0.
    year, week = 2 * math.pi * 59 / 366, 2 * math.pi * date(2024, 2, 29).weekday() / 7
    expected = [-0.5, 0, 1, 0, 0, 59 / 365 * 2 - 1, math.sin(year), math.cos(year), math.sin(week), math.cos(week)]
    assert np.allclose(_encoded(tmp_path, "7,25,b,2024-02-29,no"), expected, atol=1e-6)
    assert [(f.name, f.start, f.stop) for f in spans(SCHEMA)] == [("age", 0, 1), ("ward", 1, 5), ("day", 5, 10)]


def test_numbers_and_days_beyond_the_range_are_clipped_to_it(tmp_path):
    assert _encoded(tmp_path, "7,1e9,b,2031-01-01,no")[[0, 5]].tolist() == [1, 1]
    assert _encoded(tmp_path, "7,-3,b,1999-01-01 12:30,no")[[0, 5]].tolist() == [-1, -1]


def test_missing_values_are_zero_or_flagged_or_refused_as_the_schema_says(tmp_path):
    assert _encoded(tmp_path, "7,NA,?,,no").tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    strict = Schema(
        SCHEMA.target, (NumberColumn("age", 0, 1, "refuse"), *(IgnoredColumn(n) for n in ("id", "ward", "day")))
    )
    with pytest.raises(BadInput, match=r"^line 2 of .* has no value in the column 'age', and the schema wants one$"):
        _encoded(tmp_path, "7,,b,,no", strict)


def test_no_row_changes_how_another_is_encoded(tmp_path):
    alone = encode(SCHEMA, read_whole(_file(tmp_path, _rows(3))))
    beside = encode(SCHEMA, read_whole(_file(tmp_path, [*_rows(3), "9,1e300,c,2024-07-01,yes"])))
    assert np.array_equal(alone, beside[:3])


def test_new_rows_need_no_target_and_their_columns_may_stand_in_another_order(tmp_path):
    given = encode(SCHEMA, read_whole(_file(tmp_path, ["7,25,b,2024-02-29,no"])))
    turned = encode(SCHEMA, read_whole(_file(tmp_path, ["2024-02-29,b,25"], "day,ward,age")))
    assert np.array_equal(given, turned)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("1,x,a,2024-01-01,no", "line 3 of {} has 'x' in the column 'age', where a number is expected"),
        ("1,inf,a,2024-01-01,no", "line 3 of {} has 'inf' in the column 'age', where a number is expected"),
        ('1,"3,5",a,2024-01-01,no', "line 3 of {} has '3,5' in the column 'age': write numbers with a decimal point"),
        ("1,3,d,2024-01-01,no", "line 3 of {} has 'd' in the column 'ward', which is no level of the schema (a, b, c)"),
        ("1,3,a,01.02.2024,no", "line 3 of {} has '01.02.2024' in the column 'day', where a date such as 2024-01-31"),
        ("1,3,a,2024-01-01,maybe", "line 3 of {} has 'maybe' in the column 'sick', which is no class of the schema"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_with_its_line(tmp_path, row, sentence):
    path = _file(tmp_path, ["0,3,a,2024-01-01,no", row])
    table = read_whole(path)
    with pytest.raises(BadInput) as refusal:
        _both(table)
    assert str(refusal.value).startswith(sentence.format(path))


def test_unknown_and_absent_columns_are_named(tmp_path):
    with pytest.raises(BadInput, match="has a column 'zip' that the schema does not know"):
        encode(SCHEMA, read_whole(_file(tmp_path, ["1,3,a,2024-01-01,8"], "id,age,ward,day,zip")))
    with pytest.raises(BadInput, match="has no column 'ward', which the schema needs"):
        encode(SCHEMA, read_whole(_file(tmp_path, ["1,3,2024-01-01"], "id,age,day")))


def test_a_public_schema_leaves_no_caveat_and_a_draft_keeps_one(tmp_path):
    path = _file(tmp_path, [*_rows(), "50,3,a,2024-01-01,"])
    data = load(str(path), target="sick", schema=SCHEMA)
    assert (data.own, data.caveats, data.schema, data.classes) == (True, (), SCHEMA, ("no", "yes"))
    assert len(data.train) + len(data.test) == 40
    assert any("1 rows without a value of 'sick'" in note for note in data.notes)
    draft = drafted(read_whole(path), "sick")
    assert load(str(path), schema=draft).caveats == (NOT_PUBLIC,)


def test_which_rows_are_tested_on_depends_on_no_value(tmp_path):
    before = load(str(_file(tmp_path, _rows(), name="a.csv")), schema=SCHEMA)
    others = [row.replace("yes", "no") if i % 3 else row for i, row in enumerate(_rows())]
    after = load(str(_file(tmp_path, others, name="b.csv")), schema=SCHEMA)
    assert np.array_equal(before.train.x, after.train.x)
    assert not np.array_equal(before.train.y, after.train.y)


def test_columns_are_read_as_what_they_are(tmp_path):
    rows = [f"{i},{1.5 * (i % 7)},{'ab'[i % 2]},{1 + i % 28:02d}.03.2024,k,text {i},{i % 2}" for i in range(60)]
    table = read_whole(_file(tmp_path, [*rows, "60,,,,k,text x,1"], "id,dose,ward,day,same,note,sick"))
    found = {reading.name: (reading.kind, reading.features, reading.missing) for reading in readings(table, "sick")}
    assert found == {
        "id": ("identifier", 0, 0),
        "dose": ("number", 1, 1),
        "ward": ("category", 2, 1),
        "day": ("date", 1, 1),
        "same": ("constant", 0, 0),
        "note": ("identifier", 0, 0),
    }
    assert class_counts(table, "sick") == {"0": 30, "1": 31}
    draft = drafted(table, "sick")
    assert DateColumn("day", ("days",), "2024-03-01", "2024-03-28", "%d.%m.%Y") in draft.columns
    assert encode(draft, table).shape == (61, 4)


def test_an_unreadable_column_is_shown_with_its_sentence(tmp_path):
    table = read_whole(_file(tmp_path, [f'{i},"{i},5"' for i in range(20)] + ["x,3"], "a,b"))
    one, other = readings(table, None)
    assert one.kind == other.kind == "unreadable"
    assert one.problem.startswith("line 22 of")
    assert "'x' in the column 'a'" in one.problem
    assert "writes numbers with a comma" in other.problem


def test_a_draft_marks_every_value_of_the_rows_and_survives_toml(tmp_path):
    draft = drafted(read_whole(_file(tmp_path, _rows())), "sick")
    (tmp_path / "draft.toml").write_text(draft_toml(draft))
    assert read_schema(tmp_path / "draft.toml") == draft
    assert not draft.public
    assert NumberColumn("age", 20, 58) in draft.columns
    unmarked = [line for line in draft_toml(draft).splitlines() if FROM_ROWS not in line and not line.startswith("#")]
    private = ("20.0", "58.0", '"a"', '"yes"', "2024-01-01", "2024-12-", "number", "category", "date", "identifier")
    assert not [line for line in unmarked if any(value in line for value in private)]
    (tmp_path / "public.toml").write_text(schema_toml(SCHEMA))
    assert read_schema(tmp_path / "public.toml") == SCHEMA
    assert codec.decode(Schema, codec.encode(SCHEMA)) == SCHEMA


def test_the_digest_tells_schemas_apart():
    other = Schema(SCHEMA.target, (NumberColumn("age", 0, 101), *SCHEMA.columns[2:]), public=True)
    assert SCHEMA.digest() == Schema(SCHEMA.target, SCHEMA.columns, public=True).digest() != other.digest()


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: NumberColumn("a", 1, 1), "low below high"),
        (lambda: NumberColumn("a", 0, math.inf), "must be finite"),
        (lambda: NumberColumn("a", 0, 1, "mean"), "missing = 'mean': must be one of refuse, zero, flag"),
        (lambda: NumberTarget("a", 2, 1), "low below high"),
        (lambda: CategoryColumn("a", ("x", "x")), "given more than once"),
        (lambda: CategoryColumn("", ("x",)), "every column of a schema has a name"),
        (lambda: DateColumn("a"), "first = '': must be a date such as 2024-01-31"),
        (lambda: DateColumn("a", ("month",)), "must be among days, year, week"),
        (lambda: ClassTarget("y", ("x",)), "at least 2"),
        (lambda: IgnoredColumn("a", "bored"), "reason = 'bored'"),
        (lambda: Schema(SCHEMA.target, (IgnoredColumn("a"),)), "all are ignored"),
        (lambda: Schema(SCHEMA.target, (NumberColumn("sick", 0, 1),)), "'sick' is named more than once"),
        (lambda: Schema(SCHEMA.target, (SCHEMA.target,)), "columns = "),
        (
            lambda: codec.decode(Schema, {"target": {"kind": "class"}, "columns": []}),
            "target.name: this key is missing",
        ),
        (
            lambda: codec.decode(Schema, codec.encode(SCHEMA) | {"columns": [{"kind": "colour"}]}),
            r"columns\[0\].kind = 'colour': must be one of number, category, date, ignore",
        ),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(make, rule):
    with pytest.raises(BadInput, match=rule):
        make()


def test_what_has_no_schema_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(BadInput, match="digits is a built-in dataset"):
        load("digits", schema=SCHEMA)
    with pytest.raises(BadInput, match="the schema predicts 'sick'"):
        load(str(_file(tmp_path, _rows())), target="age", schema=SCHEMA)
    (tmp_path / "bad.toml").write_text("public = maybe")
    with pytest.raises(BadInput, match=r"bad.toml': is not TOML"):
        read_schema(tmp_path / "bad.toml")
