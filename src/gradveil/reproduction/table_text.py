"""A table of the paper as text, ours with the published figure: its grid, and as CSV, LaTeX and plain values."""

import re
from collections import Counter
from collections.abc import Sequence
from csv import DictWriter
from dataclasses import dataclass
from io import StringIO
from typing import Any

from gradveil import codec
from gradveil.reproduction.cell import Agreement, Cell, FilledCell, Headings, counts

ABSENT = "—"
COLORS = {Agreement.AGREES: "teal", Agreement.DIFFERS: "red", Agreement.NOT_COMPARABLE: "gray"}
_FIELDS = (
    "row", "column", "published", "ours", "error", "spread", "n", "verdict", "reason", "reading", "guarantee",
    "measure",
)  # fmt: skip
_UNWIELDY = 1e6
_TEX = {
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    # In LaTeX's default font these three print as other signs.
    "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}",
    ABSENT: r"\textemdash{}", "\N{EN DASH}": r"\textendash{}", "\N{MINUS SIGN}": "$-$",
    "\N{MULTIPLICATION SIGN}": r"$\times$", "±": r"$\pm$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$",
    "∞": r"$\infty$", "δ": r"$\delta$", "ε": r"$\varepsilon$",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$", "\N{GREEK SMALL LETTER SIGMA}": r"$\sigma$",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells by row and column, in the order of their first cell; where there is no cell, `at` has no key."""

    heads: tuple[Headings, ...]
    rows: tuple[Headings, ...]
    at: dict[tuple[Headings, Headings], FilledCell]


def grid(filled: Sequence[FilledCell]) -> Grid:
    """Lay cells out by row and column; two cells in one spot are refused, for one would be lost."""
    at = {(f.cell.row, f.cell.column): f for f in filled}
    if len(at) < len(filled):
        often = Counter((f.cell.row, f.cell.column) for f in filled)
        row, column = often.most_common(1)[0][0]
        raise ValueError(
            f"two cells lie at row {joined(row)!r}, column {joined(column)!r}, where there is room for one"
        )
    return Grid(tuple(dict.fromkeys(column for _, column in at)), tuple(dict.fromkeys(row for row, _ in at)), at)


def joined(path: Headings) -> str:
    """Return a path of headings as one text."""
    return " / ".join(path)


def cell_text(filled: FilledCell) -> str:
    """Return one cell's text: ours, and the paper's in brackets."""
    return f"{our_text(filled)} [{published_text(filled)}]"


def our_text(filled: FilledCell) -> str:
    """Return what we obtain with its standard error, the deviation between seeds, and how often if more than once."""
    ours = filled.measurement
    if ours is None or ours.value is None:
        return ABSENT
    n = f" n={ours.n}" if ours.n > 1 else ""
    if isinstance(ours.value, str):
        return ours.value + n
    value = _number(ours.value, filled.cell)
    error = "" if ours.error is None else f" ±{_error(ours.error, value)}"
    spread = "" if ours.spread is None else f" sd={_error(ours.spread, value)}"
    return value + error + spread + n


def published_text(filled: FilledCell) -> str:
    """Return what the paper prints, as it prints it."""
    return ABSENT if filled.cell.published is None else filled.cell.published


def csv_text(filled: Sequence[FilledCell]) -> str:
    """Return one line a cell, with numbers in full and the published figure as printed."""
    file = StringIO()
    writer = DictWriter(file, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for f in filled:
        texts = {"row": joined(f.cell.row), "column": joined(f.cell.column), "published": f.cell.published}
        writer.writerow(codec.record(f.record()) | texts)
    return file.getvalue()


def latex_text(title: str, filled: Sequence[FilledCell], notes: Sequence[str]) -> str:
    r"""Return a table for LaTeX, colored by agreement; the document needs \usepackage{xcolor} and nothing else."""
    laid = grid(filled)
    top = ["", *(_tex(joined(head)) for head in laid.heads)]
    # A row that starts with a brace cannot be mistaken for an option of the line break before it.
    rows = [
        [f"{{{_tex(joined(row))}}}", *(_colored(laid.at.get((row, head))) for head in laid.heads)] for row in laid.rows
    ]
    number = counts(filled)
    key = ", ".join(_in_color(a, f"{a.value}: {number[a.value]}") for a in Agreement)
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{_tex(title)}}}",
        rf"\begin{{tabular}}{{{'l' * len(top)}}}", r"\hline", _tex_row(top), r"\hline", *map(_tex_row, rows),
        r"\hline", r"\end{tabular}", rf"\par {key}", *(rf"\par {_tex(note)}" for note in notes), r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def cell_records(filled: Sequence[FilledCell]) -> list[dict[str, Any]]:
    """Return the cells as JSON: a list of CellRecord."""
    return [codec.record(f.record()) for f in filled]


def _number(value: float, cell: Cell) -> str:
    """Print one decimal more than the paper does, or three digits that count where it prints none or an exponent."""
    if isinstance(value, int):
        return str(value)
    if cell.digits is not None and "e" not in (cell.published or "").lower() and abs(value) < _UNWIELDY:
        return f"{value:z.{cell.digits + 1}f}"
    return f"{value:.0f}" if 999.5 <= abs(value) < _UNWIELDY else f"{value:#.3g}".rstrip(".")


def _error(error: float, value: str) -> str:
    """Print an error with the decimals of its value, unless so few would make it nothing."""
    text = f"{error:.2g}" if "e" in value else f"{error:.{len(value.partition('.')[2])}f}"
    return f"{error:.1g}" if error > 0 and float(text) == 0 else text


def _tex(text: str) -> str:
    """Escape a text; a letter that LaTeX may not know is printed as its number, so that the page compiles."""
    line = " ".join(text.split())
    signs = (_TEX.get(sign, sign if sign.isascii() else f"(U+{ord(sign):04X})") for sign in line)
    # Two hyphens in a row would print as a dash.
    return re.sub("-(?=-)", "-{}", "".join(signs))


def _tex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _colored(filled: FilledCell | None) -> str:
    return "" if filled is None else _in_color(filled.agreement, _tex(cell_text(filled)))


def _in_color(agreement: Agreement, text: str) -> str:
    return rf"\textcolor{{{COLORS[agreement]}}}{{{text}}}"
