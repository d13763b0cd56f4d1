"""How a claim is judged: cells are looked up by table, row and column, and compared with their errors."""

from collections.abc import Iterable, Mapping

from scipy.stats import norm

from gradveil.reproduction.cell import Answer, Filled

Tables = Mapping[str, list[Filled]]
Number = tuple[float, float]
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


class Missing(Exception):
    """A cell that a claim needs has no number."""


def answer_in(tables: Tables, table: str, row: tuple[str, ...], column: tuple[str, ...]) -> Answer:
    """Give our answer in a cell; raises Missing if there is none."""
    for filled in tables.get(table, []):
        if filled.cell.row == row and filled.cell.column == column and filled.answer is not None:
            return filled.answer
    raise Missing


def value(tables: Tables, table: str, row: tuple[str, ...], column: tuple[str, ...]) -> tuple[float, float]:
    """Give our number in a cell and its standard error."""
    answer = answer_in(tables, table, row, column)
    if answer.value == "diverged":  # the worst that training can do
        return 0.0, 0.0
    if not isinstance(answer.value, int | float):
        raise Missing
    return float(answer.value), answer.error or 0.0


def word(tables: Tables, table: str, row: tuple[str, ...], column: tuple[str, ...]) -> str:
    """Give our word in a cell."""
    said = answer_in(tables, table, row, column).value
    if not isinstance(said, str):
        raise Missing
    return said


def ahead(pairs: Iterable[tuple[Number, Number]]) -> str:
    """Judge `the first is at least as large as the second` over pairs of number and standard error.

    It fails if one pair is clearly the other way, holds if all are clearly so or equal, and is undecided where an order
    is within the error. Clearly means beyond z errors, with z so large that of all pairs together one in 44 would be
    beyond it by chance: two errors for one pair.
    """
    held = list(pairs)
    z = float(norm.isf(norm.sf(2) / max(len(held), 1)))
    sure = True
    for (a, error_a), (b, error_b) in held:
        error = z * (error_a**2 + error_b**2) ** 0.5
        if b - a > error:
            return FAILS
        sure = sure and a - b >= error
    return HOLDS if sure else UNDECIDED


def alike(pairs: Iterable[tuple[Number, Number]]) -> str:
    """Judge `the two are equal` over pairs of number and standard error: it fails if one pair is clearly apart."""
    held = list(pairs)
    z = float(norm.isf(norm.sf(2) / max(len(held), 1)))
    apart = [abs(a - b) > z * (error_a**2 + error_b**2) ** 0.5 for (a, error_a), (b, error_b) in held]
    return FAILS if any(apart) else UNDECIDED
