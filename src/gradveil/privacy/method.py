"""A protection as a value: the surface where it acts, and its parts."""

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from gradveil.errors import BadInput
from gradveil.fields import settle
from gradveil.privacy.adaptive import CLIPS, AdaClip, Quantile
from gradveil.privacy.clip import Clip, OwnNorm, Unclipped
from gradveil.privacy.draw import Draw
from gradveil.privacy.prune import PRUNES, Keep, Prune
from gradveil.privacy.schedule import SCHEDULES, Constant, Schedule
from gradveil.privacy.sensitivity import SENSITIVITIES, ClipBound, Fixed, L2MaxAsCoded, Sensitivity
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One protection: at `surface`, units are pruned, clipped, and noised by sigma_t S drawn as `draw` says.

    `honest` is the fraction of a cohort that is honest and answers, all if not given: H = ceil(honest K) clients. With
    `share` (only where clients noise their own update, or the one sum of a round) each draws sigma S / sqrt(H) instead
    of sigma S, so that the sum over the cohort carries the noise sigma S of a trusted server even if only H add theirs.
    """

    name: str
    surface: Surface = Surface.EXAMPLE
    prune: Prune = field(default=Keep(), metadata={"kinds": PRUNES})
    clip: Clip = field(default=Unclipped(), metadata={"kinds": CLIPS})
    sensitivity: Sensitivity = field(default=Fixed(0.0), metadata={"kinds": SENSITIVITIES})
    noise: Schedule = field(default=Constant(0.0), metadata={"kinds": SCHEDULES})
    draw: Draw = Draw.SUM
    share: bool = False
    honest: float | None = None

    def __post_init__(self) -> None:
        settle(self)
        if self.honest is not None and not 0 < self.honest <= 1:
            raise BadInput(f"honest = {self.honest}: a fraction of the clients is above 0 and at most 1")
        for conflict, reason in self._conflicts():
            if conflict:
                raise BadInput(f"method {self.name!r}: {reason}")

    def _conflicts(self) -> tuple[tuple[bool, str], ...]:
        as_coded = isinstance(self.sensitivity, L2MaxAsCoded)
        return (
            (
                isinstance(self.clip, Unclipped) and isinstance(self.sensitivity, ClipBound),
                "an Unclipped lot has no bound, so ClipBound would make the noise infinite",
            ),
            (
                not self.noise.silent and self.sensitivity == Fixed(0.0),
                "noise with sigma > 0 and sensitivity 0 would silently do nothing",
            ),
            (
                as_coded and not self._same_limits(),
                "L2MaxAsCoded belongs to the clip OwnNorm with the same low and high, whose norms it averages",
            ),
            (
                isinstance(self.clip, Quantile) and isinstance(self.sensitivity, Fixed),
                "the bound of Quantile moves, so a Fixed sensitivity would not follow what was clipped",
            ),
            (
                isinstance(self.clip, AdaClip) and not isinstance(self.sensitivity, ClipBound | Fixed),
                "AdaClip measures whitened units, to which only ClipBound or Fixed applies",
            ),
            (
                isinstance(self.clip, Slack) and not isinstance(self.sensitivity, ClipBound),
                "Slack bounds a unit and its slots together by a C that moves, to which only ClipBound applies",
            ),
            (
                self.share and self.surface is Surface.SERVER,
                "share splits one noise among clients, which needs surface = update or example",
            ),
        )

    def _same_limits(self) -> bool:
        clip, sensitivity = self.clip, self.sensitivity
        if not isinstance(clip, OwnNorm) or not isinstance(sensitivity, L2MaxAsCoded):
            return False
        return (clip.low, clip.high) == (sensitivity.low, sensitivity.high)

    @property
    def idle(self) -> bool:
        """Whether the method changes nothing: plain federated averaging."""
        return self.noise.silent and isinstance(self.clip, Unclipped) and isinstance(self.prune, Keep)

    def acts(self, surface: Surface) -> bool:
        """Return whether a lot that crosses this surface is changed there."""
        return self.surface is surface and not self.idle


class TracedMethod(NamedTuple):
    """A method inside compiled code: the same parts, whose numbers may be traced; sigma comes separately."""

    surface: Surface
    prune: Prune
    clip: Clip
    sensitivity: Sensitivity
    draw: Draw
    share: bool
    idle: bool

    def acts(self, surface: Surface) -> bool:
        """Return whether a lot that crosses this surface is changed there."""
        return self.surface is surface and not self.idle


@dataclass(frozen=True, slots=True)
class StaticMethod:
    """The static half of a method: its parts without their numbers. Hashable; it decides the compiled program."""

    surface: Surface
    parts: tuple[tuple[type[Any], tuple[tuple[str, Any], ...]], ...]
    draw: Draw
    share: bool
    idle: bool


class _Mark(Enum):
    """Marks in a StaticMethod where a part has a number; an Enum member is the same object after pickling."""

    NUMBER = "number"


def split_static(method: Method) -> tuple[StaticMethod, tuple[float, ...]]:
    """Split a method into its static half and its dynamic numbers: one compiled program serves every C.

    Equinox calls this `partition`; here that word means the split of data among clients.
    """
    parts = (method.prune, method.clip, method.sensitivity)
    dynamic = tuple(getattr(p, f.name) for p in parts for f in _fields(p) if _is_number(getattr(p, f.name)))
    skeletons = tuple(
        (type(p), tuple((f.name, _Mark.NUMBER if _is_number(v := getattr(p, f.name)) else v) for f in _fields(p)))
        for p in parts
    )
    return StaticMethod(method.surface, skeletons, method.draw, method.share, method.idle), dynamic


def combine(static: StaticMethod, dynamic: tuple[Any, ...]) -> TracedMethod:
    """Put numbers (host floats or traced scalars) back into the parts; checks were done at construction."""
    numbers = iter(dynamic)
    prune, clip, sensitivity = (_rebuild(cls, fields, numbers) for cls, fields in static.parts)
    return TracedMethod(static.surface, prune, clip, sensitivity, static.draw, static.share, static.idle)


def _fields(part: Any) -> tuple["dataclasses.Field[Any]", ...]:
    return dataclasses.fields(part)


def _is_number(value: Any) -> bool:
    return isinstance(value, float)


def _rebuild(cls: type[Any], fields: tuple[tuple[str, Any], ...], numbers: Any) -> Any:
    part = object.__new__(cls)
    for name, value in fields:
        object.__setattr__(part, name, next(numbers) if value is _Mark.NUMBER else value)
    return part
