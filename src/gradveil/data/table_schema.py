"""A schema: how each column of a table becomes features, said once and by public facts, whatever rows there are."""

import math
from dataclasses import dataclass, field
from datetime import date
from typing import ClassVar, Protocol, cast

from gradveil import codec
from gradveil.errors import BadInput, quoted
from gradveil.fields import settle

MISSING_RULES = ("refuse", "zero", "flag")
"""What a missing value becomes: a refusal; 0 in every feature of the column; that, and 1 in a feature of its own."""
FORMS = {"days": 1, "year": 2, "week": 2}
"""How a date is read, and in how many features: days between two dates, place in the year, place in the week."""
REASONS = ("identifier", "constant", "text", "unwanted")
"""Why a column is ignored."""
MOST_COLUMNS = 100_000


class SchemaColumn(Protocol):
    """A rule for one column: the features of a row depend on that row alone."""

    @property
    def name(self) -> str:
        """The column's name in the first line of the file."""

    @property
    def missing(self) -> str:
        """What a missing value becomes."""

    @property
    def width(self) -> int:
        """How many features the column becomes."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A number: clipped to low..high, which become -1 and 1. A missing value is 0, the middle, unless refused."""

    KIND: ClassVar[str] = "number"
    name: str
    low: float
    high: float
    missing: str = "zero"

    def __post_init__(self) -> None:
        settle(self)
        _check_name(self)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise BadInput(f"low, high = {self.low}, {self.high}: of {self.name!r} must be finite, and low below high")

    @property
    def width(self) -> int:
        """One feature, and one more if missing values are flagged."""
        return 1 + (self.missing == "flag")


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """One of the levels: a feature of 0 or 1 for each. Any other level is refused by name."""

    KIND: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    missing: str = "zero"

    def __post_init__(self) -> None:
        settle(self)
        _check_name(self)
        _check_names(f"levels of {self.name!r}", self.levels, 1)

    @property
    def width(self) -> int:
        """One feature a level, and one more if missing values are flagged."""
        return len(self.levels) + (self.missing == "flag")


@dataclass(frozen=True, slots=True)
class DateColumn:
    """A date, read in one form or several.

    days: clipped to first..last, which become -1 and 1. year, week: sine and cosine of the place in the year or week.
    pattern: as of Python's strptime; empty for 2024-01-31, after which a time of day is allowed and not used.
    """

    KIND: ClassVar[str] = "date"
    name: str
    forms: tuple[str, ...] = ("days",)
    first: str = ""
    last: str = ""
    pattern: str = ""
    missing: str = "zero"

    def __post_init__(self) -> None:
        settle(self)
        _check_name(self)
        _check_names(f"forms of {self.name!r}", self.forms, 1)
        for form in self.forms:
            if form not in FORMS:
                raise BadInput(f"forms = {quoted(form)}: must be among {', '.join(FORMS)}")
        if "days" in self.forms and self._day("first") >= self._day("last"):
            raise BadInput(f"first = {self.first!r}: of {self.name!r} must be before last = {self.last!r}")

    def _day(self, key: str) -> date:
        try:
            return date.fromisoformat(getattr(self, key))
        except ValueError:
            raise BadInput(f"{key} = {quoted(getattr(self, key))}: must be a date such as 2024-01-31") from None

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last day as ordinals."""
        return self._day("first").toordinal(), self._day("last").toordinal()

    @property
    def width(self) -> int:
        """One feature for days, two for a place in the year or week, and one more if missing values are flagged."""
        return sum(FORMS[form] for form in self.forms) + (self.missing == "flag")


@dataclass(frozen=True, slots=True)
class IgnoredColumn:
    """A column that is not used; it need not be there."""

    KIND: ClassVar[str] = "ignore"
    name: str
    reason: str = "unwanted"

    def __post_init__(self) -> None:
        settle(self)
        _check_name(self)
        if self.reason not in REASONS:
            raise BadInput(f"reason = {quoted(self.reason)}: must be one of {', '.join(REASONS)}")

    @property
    def missing(self) -> str:
        """Nothing is asked of its values."""
        return "zero"

    @property
    def width(self) -> int:
        """No feature."""
        return 0


class SchemaTarget(Protocol):
    """What is predicted."""

    @property
    def name(self) -> str:
        """The column's name in the first line of the file."""


@dataclass(frozen=True, slots=True)
class ClassTarget:
    """A class to predict: one of `classes`, numbered in this order. Any other is refused by name."""

    KIND: ClassVar[str] = "class"
    name: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        settle(self)
        _check_names(f"classes of {self.name!r}", self.classes, 2)


@dataclass(frozen=True, slots=True)
class NumberTarget:
    """A number to predict: clipped to low..high, which become -1 and 1."""

    KIND: ClassVar[str] = "number"
    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        settle(self)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise BadInput(f"low, high = {self.low}, {self.high}: of {self.name!r} must be finite, and low below high")


COLUMNS = (NumberColumn, CategoryColumn, DateColumn, IgnoredColumn)
TARGETS = (ClassTarget, NumberTarget)


@dataclass(frozen=True, slots=True)
class Schema:
    """How rows become features float32 [n, features] and what is predicted from them.

    public: whether the owner says that no range, level or class in it was taken from the private rows. If false, as in
    a draft, every guarantee keeps a caveat.
    """

    target: SchemaTarget = field(metadata={"kinds": TARGETS})
    columns: tuple[SchemaColumn, ...] = field(metadata={"kinds": COLUMNS})
    public: bool = False

    def __post_init__(self) -> None:
        settle(self)
        for part in (self.target, *self.columns):
            if not isinstance(part, (*TARGETS, *COLUMNS)):
                raise BadInput(f"columns = {quoted(part)}: a schema has columns of its own kinds only")
        if not 0 < len(self.columns) <= MOST_COLUMNS:
            raise BadInput(f"columns: {len(self.columns)} are given, and 1 to {MOST_COLUMNS} are expected")
        if not self.width:
            raise BadInput("columns: all are ignored, so nothing is left to predict from")
        names = [self.target.name, *(column.name for column in self.columns)]
        twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
        if twice:
            raise BadInput(f"columns: {sorted(twice)[0]!r} is named more than once, or is the target too")

    @property
    def width(self) -> int:
        """How many features a row becomes."""
        return sum(column.width for column in self.columns)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes in their order; none if a number is predicted."""
        return cast(tuple[str, ...], getattr(self.target, "classes", ()))

    def digest(self) -> str:
        """Return the SHA-256 by which two machines know that they encode alike."""
        return codec.digest(self)


def _check_name(column: SchemaColumn) -> None:
    if not column.name:
        raise BadInput("name = '': every column of a schema has a name")
    if column.missing not in MISSING_RULES:
        raise BadInput(f"missing = {quoted(column.missing)}: must be one of {', '.join(MISSING_RULES)}")


def _check_names(what: str, names: tuple[str, ...], least: int) -> None:
    if len(names) < least:
        raise BadInput(f"{what}: {len(names)} are given, and at least {least} must be")
    if "" in names or len(set(names)) < len(names):
        raise BadInput(f"{what}: one is empty or given more than once")
