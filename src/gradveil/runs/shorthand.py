"""The short names of settings, which the command line and the library share: words and numbers to parts of a plan."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gradveil import codec, own_code
from gradveil.data.partition import Dirichlet, Iid, Partition, TwoShards
from gradveil.data.sampling import SAMPLINGS, Sampling
from gradveil.data.schema_text import read_schema
from gradveil.data.sources import locate
from gradveil.errors import BadInput, quoted
from gradveil.federation.plan import Plan
from gradveil.fields import choose, scalar
from gradveil.methods import DECAYS, METHODS, SENSITIVITY_NAMES, decay
from gradveil.models.networks import MODELS
from gradveil.names import pick
from gradveil.privacy.clip import Clip, Flat, OwnNorm, PerLayer
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant, Schedule
from gradveil.privacy.sensitivity import L2MaxAsCoded, Sensitivity
from gradveil.privacy.slack import Slack

SAMPLING_NAMES: dict[str, Sampling] = {kind.name: kind() for kind in SAMPLINGS}
_MEMBERS = {"clip": "scales", "sensitivity": "data_dependent", "decay": "sigmas"}
"""By what a part is told from a word or a number."""
DEFAULT_SIGMA_0, DEFAULT_SIGMA_T = 15.0, 4.85


def partition_from(text: str) -> Partition:
    """Read two-shards, iid, dirichlet or dirichlet:ALPHA."""
    name, _, alpha = text.partition(":")
    if name == "dirichlet":
        return Dirichlet(number("partition", alpha) if alpha else 0.5)
    kinds: dict[str, Partition] = {"two-shards": TwoShards(), "iid": Iid(), "dirichlet": Dirichlet(0.5)}
    return pick("partition", text, kinds)


def number(option: str, text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{option} = {quoted(text)}: must be a number") from None


def method_named(name: str) -> Method:
    """Find a method by its name."""
    return pick("method", name, METHODS).value


def divided(settings: dict[str, Any]) -> tuple[dict[str, Any], "Tweaks"]:
    """Divide settings by their short names into fields of a plan and changes of its method; words become parts.

    >>> divided({"lr": 0.1, "sigma": 2.0})[0]
    {'learning_rate': 0.1}
    """
    short = {field.name for field in fields(Tweaks)}
    tweaks = Tweaks(**{name: value for name, value in settings.items() if name in short})
    rest = {name: value for name, value in settings.items() if name not in short}
    if "lr" in rest:
        if "learning_rate" in rest:
            raise BadInput("lr, learning_rate: are one setting; give it once")
        rest["learning_rate"] = rest.pop("lr")
    for name, read in (("sampling", _sampling), ("partition", partition_from), ("model", _model)):
        if isinstance(rest.get(name), str):
            rest[name] = read(rest[name])
    if isinstance(rest.get("schema"), str | Path):
        rest["schema"] = read_schema(Path(rest["schema"]))
    if isinstance(rest.get("test"), str | Path):
        rest["test"] = locate(Path(rest["test"]))
    return _validation(rest), tweaks


def _validation(settings: dict[str, Any]) -> dict[str, Any]:
    """Read `validation` as a fraction if it is a number, and as the path of a file otherwise."""
    given = settings.get("validation")
    if not isinstance(given, str | Path):
        return settings
    rest = {name: value for name, value in settings.items() if name != "validation"}
    try:
        return rest | {"validation": float(str(given))}
    except ValueError:
        return rest | {"validation_file": locate(Path(given))}


def _sampling(name: str) -> Sampling:
    return _own("sampling", name) or pick("sampling", name, SAMPLING_NAMES)


def _model(name: str) -> Any:
    return _own("model", name) or pick("model", name, {kind.__name__.lower(): kind for kind in MODELS})()


def _own(option: str, name: Any) -> Any:
    """Return the part that `package.module:Name` names, or that is given itself; None for a word or number of ours."""
    if own_code.is_name(name):
        return codec.own_part(name, option, {})
    return name if hasattr(name, _MEMBERS.get(option, "")) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tweaks:
    """What is changed of a method; None leaves a part as it is.

    clip: C, or "flat:C", "per-layer:C"; the others by number or by name, as on the command line. A part of the user's
    own is `package.module:Name`: a value, or a class that is made without arguments. A part itself is taken too.
    """

    clip: str | float | Clip | None = None
    sigma: float | None = None
    decay: Any = None
    sigma_end: float | None = None
    draw: str | Draw | None = None
    sensitivity: Any = None

    def __post_init__(self) -> None:
        for name in ("sigma", "sigma_end"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, scalar(float, getattr(self, name), name))

    def of(self, method: Method) -> Method:
        """Apply the changes; the result is checked as any method is."""
        changes: dict[str, Any] = {}
        if self.clip is not None:
            changes["clip"] = _clip(self.clip, method.clip)
        if (self.sigma, self.decay, self.sigma_end) != (None, None, None):
            changes["noise"] = self._noise(method)
        if self.draw is not None:
            self._needs_noise("draw", self.draw, method)
            changes["draw"] = self.draw if isinstance(self.draw, Draw) else choose(Draw, self.draw, "draw")
        if self.sensitivity is not None:
            changes |= self._sensitivity(method, changes)
        clip, sensitivity = (changes.get(part, getattr(method, part)) for part in ("clip", "sensitivity"))
        if isinstance(clip, OwnNorm) and isinstance(sensitivity, L2MaxAsCoded):
            changes["sensitivity"] = replace(sensitivity, low=clip.low, high=clip.high)
        return replace(method, **changes)

    def _sensitivity(self, method: Method, changes: dict[str, Any]) -> dict[str, Any]:
        own = _own("sensitivity", self.sensitivity)
        chosen: Sensitivity = own or pick("sensitivity", self.sensitivity, SENSITIVITY_NAMES)
        self._needs_noise("sensitivity", self.sensitivity, method)
        own_norm = isinstance(chosen, L2MaxAsCoded) and "clip" not in changes
        return {"sensitivity": chosen} | ({"clip": OwnNorm()} if own_norm else {})

    def _needs_noise(self, option: str, value: Any, method: Method) -> None:
        if method.noise.silent:
            raise BadInput(f"{option} = {quoted(value)}: method {method.name!r} draws no noise, so it would do nothing")

    def _noise(self, method: Method) -> Schedule:
        if method.noise.silent:
            raise BadInput(f"sigma, decay: method {method.name!r} draws no noise, so it has no noise scale to set")
        own: Schedule | None = _own("decay", self.decay)
        if own is not None:
            if (self.sigma, self.sigma_end) != (None, None):
                raise BadInput(f"decay = {quoted(self.decay)}: a schedule of your own has its own noise scales")
            return own
        if self.decay is None and not isinstance(method.noise, Constant):
            return _shifted(method.noise, self.sigma, self.sigma_end)
        if self.decay in (None, "constant") and self.sigma_end is not None:
            raise BadInput(f"sigma_end = {self.sigma_end}: needs a decay, since a constant noise scale has no end")
        pick("decay", "constant" if self.decay is None else self.decay, DECAYS)
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


def _clip(value: Any, clip: Any) -> Clip:
    """Read NUMBER (the bound of the method's own kind of clip), flat:NUMBER or per-layer:NUMBER, or take a clip."""
    own: Clip | None = _own("clip", value)
    if own is not None:
        return own
    if not isinstance(value, str):
        return _bounded(scalar(float, value, "clip"), value, clip)
    kind, colon, bound = value.rpartition(":")
    if not colon:
        return _bounded(number("clip", value), value, clip)
    makers: dict[str, Any] = {"flat": Flat, "per-layer": PerLayer}
    result: Flat | PerLayer = pick("clip", kind, makers)(number("clip", bound))
    if isinstance(clip, Slack):
        return replace(clip, c=result.c, per_layer=kind == "per-layer")
    return result


def _bounded(c: float, value: Any, clip: Any) -> Clip:
    for name in ("c", "radius", "high"):
        if name in {field.name for field in fields(clip)}:
            changed: Clip = replace(clip, **{name: c})
            return changed
    raise BadInput(
        f"clip = {value}: this method does not clip; write flat:{value} or per-layer:{value} to make it clip"
    )


def refuse_unknown(changes: dict[str, Any]) -> None:
    """Refuse what is neither a field of a plan nor a short name; dataset and method are no changes."""
    known = {*Plan.__dataclass_fields__, *Tweaks.__dataclass_fields__, "lr"} - {"dataset", "method"}
    for name in changes:
        if name not in known:
            raise BadInput(f"{name}: unknown setting of a plan; known are {', '.join(sorted(known))}")
