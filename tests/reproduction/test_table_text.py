"""Every cell is in every format once, and every text comes out of it as it went in."""

import csv as csv_module
import json
import re
from io import StringIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradveil import codec
from gradveil.reproduction.cell import REASONS, Agreement, Cell, CellRecord, Measurement, fill
from gradveil.reproduction.results_page import Section, markdown, results
from gradveil.reproduction.table_text import cell_records, cell_text, csv_text, grid, latex_text

HOSTILE = "a|b_c & d%"
NASTY = r"\|_ 28*28*1 _x_ <b> `c` ~t~ ${#}^ \\ & [z] ''"
COMMANDS = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textbar{}": "|",
    r"\textless{}": "<", r"\textgreater{}": ">", r"$\pm$": "±", r"\textemdash{}": "—", "-{}": "-",
} | {"\\" + sign: sign for sign in "&%$#_{}"}  # fmt: skip


def cell(row=("r",), column=("c",), published="0.98", ours=None, *, interpretation="", reason=None, exact=False):
    made = Cell(
        row=row, column=column, published=published, job=None, measure="accuracy",
        interpretation=interpretation, reason=reason, exact=exact,
    )  # fmt: skip
    return fill(made, ours)


TABLE = [
    cell(("MNIST", "Fed-CDP"), ("T = 3",), "0.98", Measurement(0.9731, 0.0041, 3, 0.007, "epsilon 5.2, delta 1e-5")),
    cell(("MNIST", "Fed-CDP"), ("T = 10",), "0.96", Measurement(0.5, 0.01, 2, 0.02, "epsilon 5.2, delta 1e-5")),
    cell(("MNIST", "Fed-SDP"), ("T = 3",), "Y", Measurement("N"), interpretation="the noise is that of the text"),
    cell(("LFW", HOSTILE), ("T = 3",), "0.65", Measurement(0.25, 0.1, guarantee="epsilon 7|8"), reason="stand-in"),
    cell(("LFW", HOSTILE), (HOSTILE, "last"), None, Measurement(1234.5), interpretation="one | or two"),
    cell(("LFW", NASTY), ("T = 10",), "7", Measurement(7), exact=True),
    cell(("LFW", NASTY), (HOSTILE, "last"), "0.11", None),
]


def headings(filled):
    return " / ".join(filled.cell.row), " / ".join(filled.cell.column)


def unescaped(text):
    return re.sub(r"\\([\\|*_<`~])", r"\1", text)


def markdown_rows(text):
    """Give the cells of the lines that are a table, split as GitHub does: at every bar without a backslash."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.findall(r"\|((?:\\.|[^|\\])*)(?=\|)", line) for line in lines]
    return [[unescaped(c.strip()) for c in line] for line in cells]


def read_tex(text):
    """Give the text that LaTeX would print, sign by sign; a sign with a meaning of its own is refused."""
    out, at = [], 0
    while at < len(text):
        command = next((c for c in COMMANDS if text.startswith(c, at)), None)
        assert command or text[at] not in "\\&%$#_{}~^|<>", f"{text[at:]!r} is not escaped"
        assert command or (text[at].isascii() and text[at : at + 2] != "--")
        out.append(COMMANDS[command] if command else text[at])
        at += len(command or "x")
    return "".join(out)


def tex_rows(text):
    """Give [label, (color, text), ...] of each row of the tabular, and the headings first."""
    spec, body = re.search(r"\\begin\{tabular\}\{(l+)\}\n(.*)\n\\end\{tabular\}", text, re.DOTALL).groups()
    rows = []
    for line in (line for line in body.splitlines() if line != r"\hline"):
        assert line.endswith(r" \\")
        cells = re.split(r"(?<!\\) & ", " " + line.removesuffix(r" \\") + " ")
        assert len(cells) == len(spec)
        rows.append([c.strip() for c in cells])
    heads = [read_tex(c) for c in rows[0]]
    return [heads, *([read_tex(row[0][1:-1]), *map(colored, row[1:])] for row in rows[1:])]


def colored(text):
    if not text:
        return ""
    color, inner = re.fullmatch(r"\\textcolor\{(teal|red|gray)\}\{(.*)\}", text).groups()
    return color, read_tex(inner)


def by_headings(rows):
    heads = rows[0][1:]
    return {(row[0], head): value for row in rows[1:] for head, value in zip(heads, row[1:], strict=True) if value}


def test_the_grid_keeps_the_order_and_leaves_holes():
    laid = grid(TABLE)
    assert laid.heads == (("T = 3",), ("T = 10",), (HOSTILE, "last"))
    assert laid.rows == (("MNIST", "Fed-CDP"), ("MNIST", "Fed-SDP"), ("LFW", HOSTILE), ("LFW", NASTY))
    assert laid.at == {(f.cell.row, f.cell.column): f for f in TABLE}
    assert (("MNIST", "Fed-SDP"), ("T = 10",)) not in laid.at


def test_paths_that_read_alike_are_two_rows():
    assert len(grid([cell(("a / b",)), cell(("a", "b"))]).rows) == 2


@pytest.mark.parametrize("show", [grid, lambda f: markdown("", f, ()), lambda f: latex_text("", f, ())])
def test_two_cells_in_one_spot_are_refused(show):
    with pytest.raises(ValueError, match="two cells lie at row 'x / y', column 'c'"):
        show([cell(("w",)), cell(("x", "y")), cell(("x", "y"), published="0.1")])


@pytest.mark.parametrize(
    ("published", "ours", "text"),
    [
        ("0.98", Measurement(0.97312, 0.00411, 3), "0.973 ±0.004 n=3 [0.98]"),
        ("0.980", Measurement(0.97312, 0.00411), "0.9731 ±0.0041 [0.980]"),
        ("42", Measurement(41.96, None, 2), "42.0 n=2 [42]"),
        ("42", Measurement(42), "42 [42]"),
        ("0.5", Measurement(0.5, 0.00002), "0.50 ±2e-05 [0.5]"),
        ("0.5", Measurement(0.5, 0.0), "0.50 ±0.00 [0.5]"),
        ("0.1", Measurement(-0.0001), "0.00 [0.1]"),
        ("1e-5", Measurement(0.0000123456), "1.23e-05 [1e-5]"),
        ("0.1", Measurement(3.4e20, 1e19), "3.40e+20 ±1e+19 [0.1]"),
        (None, Measurement(0.5), "0.500 [—]"),
        (None, Measurement(0.5, 0.0123), "0.500 ±0.012 [—]"),
        (None, Measurement(123.4), "123 [—]"),
        (None, Measurement(999.6), "1000 [—]"),
        (None, Measurement(54321.6), "54322 [—]"),
        (None, None, "— [—]"),
        ("0.98", None, "— [0.98]"),
        ("0.98", Measurement(None, 0.1, 3), "— [0.98]"),
        ("0.98", Measurement(float("nan")), "— [0.98]"),
        ("Y", Measurement("N", None, 3), "N n=3 [Y]"),
        ("holds", Measurement("holds"), "holds [holds]"),
    ],
)
def test_a_cell_is_printed_with_one_digit_more_than_the_paper_prints(published, ours, text):
    assert cell_text(cell(published=published, ours=ours)) == text


def test_markdown_holds_every_cell_once_with_its_mark():
    marks = {Agreement.AGREES: "✓", Agreement.DIFFERS: "✗", Agreement.NOT_COMPARABLE: "·"}
    text = markdown("The title", TABLE, ())
    assert by_headings([row for row in markdown_rows(text) if row[0] != "---"]) == {
        headings(f): f"{marks[f.agreement]} {cell_text(f)}" for f in TABLE
    }
    assert {f.agreement for f in TABLE} == set(Agreement)
    assert [unescaped(text).count(cell_text(f)) for f in TABLE] == [1] * len(TABLE)


def test_below_a_table_stand_its_counts_reasons_readings_and_guarantees_once_each():
    text = markdown("A title of a*b", TABLE, ("A note on a*b.",))
    lines = [unescaped(line) for line in text.splitlines()]
    assert text.startswith("A title of a\\*b\n\n|")
    assert "7 cells: ✓ 2 agrees, ✗ 2 differs, · 3 not comparable." in lines
    assert lines.count("A note on a*b.") == 1
    assert sum("✓ agrees" in line and "✗ differs" in line and "· not comparable" in line for line in lines) == 1
    assert [line for line in lines if line.startswith("- ")] == [
        f"- stand-in: {REASONS['stand-in']}",
        f"- unpublished: {REASONS['unpublished']}",
        f"- not run: {REASONS['not run']}",
        "- the noise is that of the text",
        "- one | or two",
        "- MNIST / Fed-CDP: epsilon 5.2, delta 1e-5",
        f"- LFW / {HOSTILE}: epsilon 7|8",
    ]


def test_a_guarantee_of_two_rows_is_said_once_with_both():
    same = Measurement(0.5, 0.1, guarantee="epsilon 3")
    text = markdown("", [cell(("a",), ours=same), cell(("b", "c"), ours=same)], ())
    assert "- a; b / c: epsilon 3\n" in text
    assert text.count("epsilon 3") == 1


def test_a_table_without_reasons_has_no_empty_lists():
    assert "- " not in markdown("", [cell(ours=Measurement(0.98, 0.01))], ()).replace("---", "")


def test_csv_gives_every_value_back():
    lines = list(csv_module.DictReader(StringIO(csv_text(TABLE), newline="")))
    assert len(lines) == len(TABLE)
    for line, f in zip(lines, TABLE, strict=True):
        wanted = codec.record(f.record()) | {
            "row": headings(f)[0],
            "column": headings(f)[1],
            "published": f.cell.published,
        }
        assert line == {key: "" if value is None else str(value) for key, value in wanted.items()}
    assert float(lines[0]["ours"]) == 0.9731
    assert csv_text(TABLE).splitlines()[0] == (
        "row,column,published,ours,error,spread,n,verdict,reason,reading,guarantee,measure"
    )


def test_latex_holds_every_cell_once_in_the_color_of_its_verdict():
    colors = {Agreement.AGREES: "teal", Agreement.DIFFERS: "red", Agreement.NOT_COMPARABLE: "gray"}
    text = latex_text("A title", TABLE, ())
    assert by_headings(tex_rows(text)) == {headings(f): (colors[f.agreement], cell_text(f)) for f in TABLE}
    assert text.count(r"\textcolor") == len(TABLE) + len(Agreement)
    for verdict, number in zip(Agreement, (2, 2, 3), strict=True):
        assert text.count(rf"\textcolor{{{colors[verdict]}}}{{{verdict.value}: {number}}}") == 1


def test_latex_uses_no_command_of_a_package_but_xcolor():
    text = latex_text(NASTY, TABLE, (NASTY,))
    own = {"begin", "end", "centering", "caption", "hline", "par", "textcolor", "pm"}
    signs = {"textbackslash", "textasciitilde", "textasciicircum", "textbar", "textless", "textgreater", "textemdash"}
    assert set(re.findall(r"(?<!\\)\\([a-zA-Z]+)", text.replace(r"\\", ""))) <= own | signs
    assert set(re.findall(r"\\begin\{(\w+)\}", text)) == {"table", "tabular"}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=12))
def test_latex_is_balanced_and_printable_whatever_the_texts(label):
    text = latex_text(label, [cell((label,), (label,), "Y", Measurement("N"))], (label,))
    bare = re.sub(r"\\[&%$#_{}]", "", text)
    depth = 0
    for sign in bare:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert not set("%#_~^") & set(bare)
    assert text.isascii()


@settings(max_examples=100, deadline=None, derandomize=True)
@example("a---b")
@example(HOSTILE)
@example(NASTY)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12).map(lambda t: " ".join(t.split())))
def test_any_label_comes_out_as_it_went_in(label):
    filled = [cell((label,), (f"x{label}",), "Y", Measurement("N"))]
    assert by_headings(tex_rows(latex_text("", filled, ()))) == {(label, f"x{label}"): ("red", "N [Y]")}
    rows = markdown_rows(markdown("", filled, ()))
    assert [rows[0][1], rows[2][0]] == [f"x{label}", label]
    (line,) = csv_module.DictReader(StringIO(csv_text(filled), newline=""))
    assert (line["row"], line["column"]) == (label, f"x{label}")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (HOSTILE, r"a\textbar{}b\_c \& d\%"),
        ("\\{~^}", r"\textbackslash{}\{\textasciitilde{}\textasciicircum{}\}"),
        ("two\n\nlines", "two lines"),
        ("ε ≤ 5", r"$\varepsilon$ $\leq$ 5"),
        ("✓", "(U+2713)"),
    ],
)
def test_latex_is_escaped(text, printed):
    page = latex_text(text, [], (text,))
    assert rf"\caption{{{printed}}}" in page
    assert f"\\par {printed}\n" in page


def test_markdown_keeps_signs_of_its_own_as_they_are():
    lines = markdown(r"28*28*1 a|b_c _d_ \ `e` <f>", [], ("one\nline",)).splitlines()
    assert lines[0] == r"28\*28\*1 a\|b_c \_d\_ \\ \`e\` \<f>"
    assert "one line" in lines


def test_the_cells_as_json_are_read_back_as_records():
    written = json.loads(json.dumps(cell_records(TABLE)))
    assert [codec.decode(CellRecord, one) for one in written] == [f.record() for f in TABLE]
    assert [one["published"] for one in written] == [0.98, 0.96, "Y", 0.65, None, 7.0, 0.11]
    assert [one["ours"] for one in written] == [0.9731, 0.5, "N", 0.25, 1234.5, 7, None]
    assert [one["n"] for one in written] == [3, 2, 1, 1, 1, 1, 0]


def section(text, heading):
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_the_page_lists_exactly_the_cells_that_differ():
    other = [
        cell(("x",), ("y",), "3", Measurement(4), exact=True),
        cell(("x",), ("z",), "3", Measurement(3), exact=True),
    ]
    text = results([Section("table 2", "Accuracy", TABLE, ()), Section("table 9", "Sizes", other, ())], {})
    last = text.partition("## Cells that do not reproduce, and why\n")[2]
    assert last.strip().splitlines() == [
        "- table 2: MNIST / Fed-CDP / T = 10: ours 0.500 ±0.010 sd=0.020 n=2, the paper 0.96",
        "- table 2: MNIST / Fed-SDP / T = 3: ours N, the paper Y. Interpretation: the noise is that of the text",
        "- table 9: x / y: ours 4, the paper 3",
    ]


def test_the_page_holds_every_table_the_facts_and_the_total():
    other = [cell(("x",), ("y",), "3", Measurement(3), exact=True)]
    text = results(
        [Section("table 2", "Accuracy", TABLE, ("A note.",)), Section("a|b", "Sizes", other, ())], {"machine": "a|b"}
    )
    assert text.startswith("# Results\n\nThis page is generated by `gradveil table all` from stored records")
    assert "must not be edited by hand" in text
    assert "\n- machine: a\\|b\n" in text
    assert "8 cells: ✓ 3 agrees, ✗ 2 differs, · 3 not comparable." in text
    assert section(text, "table 2").strip() == markdown("Accuracy", TABLE, ("A note.",)).strip()
    assert section(text, r"a\|b").strip() == markdown("Sizes", other, ()).strip()


def test_a_page_on_which_all_agrees_says_so():
    text = results([Section("t", "T", [cell(ours=Measurement(0.98, 0.01)), cell(("s",))], ())], {"date": "today"})
    last = text.partition("## Cells that do not reproduce, and why\n")[2]
    assert last.strip() == "There are none: every cell that can be compared agrees."


def test_the_page_says_which_accuracy_was_reached_at_which_provable_epsilon():
    reached = cell(
        ("sigma = 0.5", "fed-cdp"), ("accuracy",), "0.95", Measurement(0.9, 0.01, guarantee="epsilon 40 for one")
    )
    plain_run = cell(("no noise", "non-private"), ("accuracy",), "0.98", Measurement(0.97, 0.01))
    page = results([Section("noise-scale at paper scale", "t", [reached, plain_run], ())], {})
    section = page.split("## Accuracy reached and its provable epsilon")[1].split("##")[0]
    assert "sigma = 0.5 / fed-cdp: accuracy 0.90" in section
    assert "the paper prints 0.95; epsilon 40 for one" in section
    assert "no guarantee" in section
    assert "provable epsilon" not in results([Section("claims", "t", [reached], ())], {})
