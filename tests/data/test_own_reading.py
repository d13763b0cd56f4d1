"""A CSV file is read as the csv module reads it, whatever reads it; and what it means is told or refused."""

import csv
import io
import math
import os
import pty
import random
import select
import socket
import subprocess
import sys

import numpy as np
import pytest

from gradveil.data.sources import load
from gradveil.data.split import quarter
from gradveil.data.user_csv import as_number
from gradveil.errors import BadInput

WORDS = ["red", "blue", "", "?", "NA", "a b", " x ", "é", "日本", 'q"q', '"', "x,y", "l\nm", "l\r\nm", "x;\ty", "n/a"]
MISSING = {"", "?", "na", "n/a", "nan", "null", "<na>"}


def _reference(text, target):
    """Read and encode a table the slow way, cell by cell, for the same split: x [n, features] and labels by row."""
    separator = max(",;\t", key=text.splitlines()[0].count)
    header, *rows = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row)
    rows = [["" if cell.strip().lower() in MISSING else cell.strip() for cell in row] for row in rows]
    rows = [row for row in rows if row[header.index(target)]]
    labels = [row[header.index(target)] for row in rows]
    train, _ = quarter(np.array([sorted(set(labels)).index(label) for label in labels]))
    blocks = []
    for place, name in enumerate(header):
        cells = [row[place] for row in rows]
        if name == target or not any(cells):
            continue
        try:
            numbers = np.array([float(cell) if cell else math.nan for cell in cells])
        except ValueError:
            levels = sorted({cells[i] for i in train} - {""})
            blocks += [np.array([float(cell == level) for cell in cells]) for level in levels]
        else:
            mean, deviation = np.nanmean(numbers[train]), np.nanstd(numbers[train])
            blocks.append(np.nan_to_num((numbers - mean) / (deviation or 1)))
    return np.stack(blocks, axis=1), labels


def _random_table(seed):
    draw = random.Random(seed)
    columns = [draw.choice(["number", "word", "sparse"]) for _ in range(draw.randint(1, 5))]
    cell = {
        "number": lambda: draw.choice([f"{draw.gauss(0, 99):.6g}", str(draw.randint(-9, 9)), "1e3", "+2", " 4 "]),
        "word": lambda: draw.choice(WORDS),
        "sparse": lambda: draw.choice([f"{draw.random():.17g}", "?", "", "NaN", "1_000"]),
    }
    buffer = io.StringIO(newline="")
    options = {"delimiter": draw.choice(",;\t"), "lineterminator": draw.choice(["\n", "\r\n", "\n\n"])}
    writer = csv.writer(buffer, quoting=draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), **options)
    writer.writerow([*(f"c{i}" for i in range(len(columns))), "y"])
    for _ in range(draw.choice([30, 80])):
        writer.writerow([*(cell[kind]() for kind in columns), draw.choice(["a", "b", "b", ""])])
    return buffer.getvalue()


@pytest.mark.parametrize("seed", range(60))
def test_a_table_is_encoded_as_a_reader_in_plain_python_would(tmp_path, seed):
    text = _random_table(seed)
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(("utf-8", "utf-8-sig")[seed % 2]))
    data = load(str(path), target="y")
    x, labels = _reference(text, "y")
    train, test = quarter(np.array([data.classes.index(label) for label in labels]))
    for split, rows in ((data.train, train), (data.test, test)):
        np.testing.assert_allclose(split.x, x[rows], rtol=1e-5, atol=1e-5)
        assert [data.classes[k] for k in split.y] == [labels[i] for i in rows]


def _write(folder, header, rows, name="t.csv"):
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


def _numbers(n=60, **changes):
    """Rows of a number of its own, a color and a label; some cells of the first column changed by their row."""
    given = {int(name[1:]): cell for name, cell in changes.items()}
    return [f"{given.get(i, i)},{('red', 'blue')[i % 3 == 0]},{i % 2}" for i in range(n)]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (_numbers(r17="1O"), r"line 19 of \S+t\.csv has '1O' in the column 'age', whose other values are numbers: "),
        (_numbers(r17="inf"), r"line 19 of \S+t\.csv has 'inf' in the column 'age'"),
        (_numbers(r3="x", r5="y"), "line 5 .* has 'x' in the column 'age'.* and 1 more cells are not numbers"),
        (_numbers(**{f"r{i}": "none" for i in range(0, 60, 3)}), "line 2 .* has 'none' in the column 'age'"),
        (_numbers(r7='"7,5"'), r"'age' .* with a comma \('7,5' in line 9\)"),
        ([f'"{i},{i:03}",red,{i % 2}' for i in range(60)], r"'age' .* with a comma \('0,000' in line 2\)"),
        ([f"p{i},red,{i % 2}" for i in range(60)], "'age' .* 45 different texts in 45 training rows, so it identifies"),
        ([f"2024-{i % 12 + 1:02}-{i % 28 + 1:02},red,{i % 2}" for i in range(400)], "'age' .* which are dates"),
        ([f"{i % 28 + 1}.3.24 12:00,red,{i % 2}" for i in range(4000)], "'age' .* 28 different texts .* are dates"),
        ([f"t{i % 30},red,{i % 2}" for i in range(120)], "'age' .* 29 different texts in 90 .* group its values"),
        ([f"t{i % 201},red,{i % 2}" for i in range(4020)], "'age' .* 201 different texts .* at most 200"),
        ([f"1e{300 + i % 9},red,{i % 2}" for i in range(60)], "'age' .* too large to be scaled"),
    ],
)
def test_a_column_that_is_neither_numbers_nor_categories_is_refused_by_name(tmp_path, rows, sentence):
    with pytest.raises(BadInput, match=sentence) as caught:
        load(_write(tmp_path, "age,color,sick", rows), target="sick")
    assert "\n" not in str(caught.value)


def test_the_line_of_a_cell_counts_lines_inside_quotes_and_rows_without_a_label(tmp_path):
    rows = [f'{i},"two\nlines",{i % 2}' for i in range(30)]
    rows[4], rows[20] = '4,"two\nlines",', '2O,"two\nlines",0'
    path = _write(tmp_path, "age,color,sick", rows)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    wanted = next(i for i, line in enumerate(lines, 1) if line.startswith("2O"))
    with pytest.raises(BadInput, match=f"line {wanted + 1} "):  # the line on which the row ends
        load(path, target="sick")


@pytest.mark.parametrize(
    "cell",
    [
        lambda i: "012"[i % 3] if i % 12 else "3+",  # names of four categories, three of which are numbers
        lambda i: ("2021-01-01", "2022-01-01")[i % 2],
        lambda i: f"t{i % 20}",
        lambda i: "1_000" if i == 3 else str(i),
        lambda i: "" if i == 3 else str(i),
    ],
)
def test_a_column_that_is_one_or_the_other_is_accepted(tmp_path, cell):
    load(_write(tmp_path, "age,sick", [f"{cell(i)},{i % 2}" for i in range(96)]), target="sick")


@pytest.mark.parametrize(
    ("tail", "sentence"),
    [
        ('"1" x,2,0', r"line 62 of \S+ cannot be read as CSV"),
        ('1,2,"0', r"line 62 of \S+ cannot be read as CSV \(unexpected end"),
        ("1,2", "line 62 .* has 2 fields, but the first line names 3"),
        ("1,2,0,4", "line 62 .* has 4 fields, but the first line names 3"),
        (f"1,{'w' * 20_000_000},0", r"t\.csv cannot be read as CSV"),
    ],
)
def test_a_broken_row_is_refused_by_its_line(tmp_path, tail, sentence):
    with pytest.raises(BadInput, match=sentence):
        load(_write(tmp_path, "age,color,sick", [*_numbers(), tail]), target="sick")


def test_a_header_alone_has_no_records(tmp_path):
    (tmp_path / "t.csv").write_text("age,sick")
    with pytest.raises(BadInput, match="0 labelled records"):
        load(str(tmp_path / "t.csv"), target="sick")


def test_a_block_may_end_inside_a_field_of_several_lines(tmp_path):
    word = "w\n" * 2000 + "w"
    rows = [f'{i},"{word}",{i % 2}' for i in range(5000)]  # 20 MB, nearly all of it inside quotes
    data = load(_write(tmp_path, "age,word,sick", rows), target="sick")
    assert data.shape == (2,)
    assert len(data.train) + len(data.test) == 5000
    assert (data.train.x[:, 1] == 1).all()


def test_progress_grows_block_by_block_to_the_whole(tmp_path):
    rows = [f"{i},{'w' * 4000},{i % 2}" for i in range(6000)]  # three blocks
    told = []
    load(_write(tmp_path, "age,word,sick", rows), target="sick", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1
    assert len([share for share in told if share < 0.4]) >= 2


def test_a_terminal_shows_how_far_a_table_is_read(tmp_path):
    path = _write(tmp_path, "age,color,sick", _numbers())
    code = f"from gradveil.cli.loading import load; [load({path!r}, target='sick') for _ in range(2)]"
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen([sys.executable, "-c", code], stderr=theirs, stdout=theirs, env=environment) as child:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            shown += more
    os.close(ours)
    assert child.returncode == 0, shown
    assert b"reading t.csv" in shown
    assert b"100/100" in shown


def test_a_table_is_read_once_by_a_command_unless_it_changes(tmp_path):
    from gradveil.cli.loading import load as load_for_a_command

    path = _write(tmp_path, "age,color,sick", _numbers())
    first = load_for_a_command(path, target="sick")
    assert load_for_a_command(path, target="sick") is first
    _write(tmp_path, "age,color,sick", _numbers(80))
    assert len(load_for_a_command(path, target="sick").train) == 60


def test_a_table_that_would_not_fit_into_memory_is_refused_with_the_numbers(tmp_path):
    rows = [",".join([*(f"t{(i * (c + 1)) % 199}" for c in range(30)), str(i % 2)]) for i in range(50_000)]
    path = _write(tmp_path, ",".join([*(f"c{c}" for c in range(30)), "y"]), rows)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (10**9, 10**9))"
    read = f"from gradveil.data.sources import load\ntry: load({path!r}, target='y')\nexcept Exception as e: print(e)"
    command = [sys.executable, "-c", f"{limit}\n{read}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "50000 rows and 5970 features" in done.stdout, done
    assert "needs about 1.19 GB of memory, and this process may use 1 GB" in done.stdout


def test_pipes_sockets_devices_and_misnamed_folders_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.npz")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder.csv").mkdir()
    for name in ("pipe.csv", "pipe.npz", "pipe"):
        with pytest.raises(BadInput, match="a pipe, a socket or a device"):
            load(str(tmp_path / name))
    with pytest.raises(BadInput, match="a pipe, a socket or a device"):
        load("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket must be short
        try:
            listening.bind("s.csv")
        finally:
            os.chdir(here)
        with pytest.raises(BadInput, match="a pipe, a socket or a device"):
            load(str(tmp_path / "s.csv"), target="y")
    with pytest.raises(BadInput, match=r"folder\.csv is a folder"):
        load(str(tmp_path / "folder.csv"), target="y")


def test_training_on_a_validation_split_that_a_table_has_not_is_refused(tmp_path):
    with pytest.raises(BadInput, match="train_all: only mnist"):
        load(_write(tmp_path, "age,color,sick", _numbers()), target="sick", train_all=True)


def test_only_texts_that_state_a_finite_number_are_numbers():
    assert [as_number(text) for text in ("1", " 2.5 ", "-1e3", "1_000")] == [1, 2.5, -1000, 1000]
    assert all(math.isnan(as_number(text)) for text in ("", "inf", "nan", "1,5", "0x1", "1e400", "x"))
