"""From words on the command line to the parts they name."""

import difflib
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from gradveil import codec
from gradveil.data.partition import Dirichlet, Iid, Partition, TwoShards
from gradveil.data.sampling import SAMPLINGS, Sampling
from gradveil.errors import BadInput
from gradveil.methods import DECAYS, METHODS, SENSITIVITY_NAMES, decay
from gradveil.privacy.clip import Clip, Flat, OwnNorm, PerLayer
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant, Schedule
from gradveil.privacy.sensitivity import L2MaxAsCoded

T = TypeVar("T")

SAMPLING_NAMES: dict[str, Sampling] = {kind.name: kind() for kind in SAMPLINGS}
DEFAULT_SIGMA_0, DEFAULT_SIGMA_T = 15.0, 4.85


def pick(option: str, name: str, among: dict[str, T]) -> T:
    """Find a name in a table, or say which names there are."""
    if name in among:
        return among[name]
    near = difflib.get_close_matches(name, among, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise BadInput(f"{option} = {name!r}: must be one of {', '.join(among)}{hint}")


def partition_from(text: str) -> Partition:
    """Read two-shards, iid, dirichlet or dirichlet:ALPHA."""
    name, _, alpha = text.partition(":")
    if name == "dirichlet":
        return Dirichlet(number("partition", alpha) if alpha else 0.5)
    kinds: dict[str, Partition] = {"two-shards": TwoShards(), "iid": Iid(), "dirichlet": Dirichlet(0.5)}
    return pick("partition", text, kinds)


def rounds_from(text: str, option: str = "watch") -> frozenset[int]:
    """Read round numbers separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdigit() for word in words) or (text and not words):
        raise BadInput(f"{option} = {text!r}: must be round numbers separated by commas, such as 0,1,10")
    return frozenset(map(int, words))


def number(option: str, text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{option} = {text!r}: must be a number") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tweaks:
    """What the command line changes of a method; None leaves a part as it is."""

    clip: str | None = None
    sigma: float | None = None
    decay: str | None = None
    sigma_end: float | None = None
    draw: str | None = None
    sensitivity: str | None = None

    def of(self, method: Method) -> Method:
        """Apply the changes; the result is checked as any method is."""
        changes: dict[str, Any] = {}
        if self.clip is not None:
            changes["clip"] = _clip(self.clip, method.clip)
        if (self.sigma, self.decay, self.sigma_end) != (None, None, None):
            changes["noise"] = self._noise(method)
        if self.draw is not None:
            changes["draw"] = codec.choose(Draw, self.draw, "draw")
        if self.sensitivity is not None:
            changes["sensitivity"] = pick("sensitivity", self.sensitivity, SENSITIVITY_NAMES)
            if isinstance(changes["sensitivity"], L2MaxAsCoded):
                changes.setdefault("clip", OwnNorm())
        clip, sensitivity = (changes.get(part, getattr(method, part)) for part in ("clip", "sensitivity"))
        if isinstance(clip, OwnNorm) and isinstance(sensitivity, L2MaxAsCoded):
            changes["sensitivity"] = replace(sensitivity, low=clip.low, high=clip.high)
        return replace(method, **changes)

    def _noise(self, method: Method) -> Schedule:
        if method.noise.silent:
            raise BadInput(f"sigma, decay: method {method.name!r} draws no noise, so it has no noise scale to set")
        if self.decay is None and not isinstance(method.noise, Constant):
            return _shifted(method.noise, self.sigma, self.sigma_end)
        if self.decay is None and self.sigma_end is not None:
            raise BadInput(f"sigma_end = {self.sigma_end}: needs --decay, since a constant noise scale has no end")
        pick("decay", self.decay or "constant", DECAYS)
        start = self.sigma if self.sigma is not None else _start(method.noise, self.decay)
        end = self.sigma_end if self.sigma_end is not None else (0.0 if self.decay == "cyclic" else DEFAULT_SIGMA_T)
        return decay(self.decay or "constant", start, end)


def _start(noise: Schedule, name: str | None) -> float:
    if isinstance(noise, Constant):
        return noise.sigma if name in (None, "constant") else DEFAULT_SIGMA_0
    return float(getattr(noise, "start", DEFAULT_SIGMA_0))


def _shifted(noise: Any, start: float | None, end: float | None) -> Schedule:
    """Change start and end of the decay that the method already has."""
    changes: dict[str, Any] = {} if start is None else {"start": start}
    if end is not None:
        names = {field.name for field in fields(noise)}
        changes |= {"floor": end} if "floor" in names else {"end": end, "gamma": None}
    shifted: Schedule = replace(noise, **changes)
    return shifted


def _clip(text: str, clip: Clip) -> Clip:
    """Read NUMBER (the bound of the method's own kind of clip), flat:NUMBER or per-layer:NUMBER."""
    kind, colon, bound = text.rpartition(":")
    if colon:
        c = number("clip", bound)
        kinds: dict[str, Clip] = {"flat": Flat(c), "per-layer": PerLayer(c)}
        return pick("clip", kind, kinds)
    names = {field.name for field in fields(clip)}  # type: ignore[arg-type]
    for name in ("c", "radius", "high"):
        if name in names:
            changed: Clip = replace(clip, **{name: number("clip", text)})  # type: ignore[type-var]
            return changed
    raise BadInput(f"clip = {text!r}: this method does not clip; write flat:{text} or per-layer:{text} to make it clip")


def method_named(name: str) -> Method:
    """Find a method by its name."""
    return pick("method", name, METHODS).value
