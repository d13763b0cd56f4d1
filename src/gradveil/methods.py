"""The protections that the paper compares, as values: each line differs from its parent in one part."""

from dataclasses import dataclass, replace

from gradveil import names
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Dssgd, Smallest
from gradveil.privacy.schedule import Constant, Cyclic, Exponential, Linear, Schedule, Staircase
from gradveil.privacy.sensitivity import ClipBound, Fixed, L2Max, L2MaxAsCoded, L2MaxOfMean, Sensitivity
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

NON_PRIVATE = Method(name="non-private")
FED_SDP = Method(
    name="fed-sdp", surface=Surface.SERVER, clip=PerLayer(4.0), sensitivity=ClipBound(), noise=Constant(6.0)
)
FED_SDP_CLIENT = replace(FED_SDP, name="fed-sdp-client", surface=Surface.UPDATE)
FED_CDP = replace(FED_SDP, name="fed-cdp", surface=Surface.EXAMPLE)
FED_ALPHA_CDP = replace(FED_CDP, name="fed-alpha-cdp", sensitivity=L2Max())
FED_ALPHA_CDP_SIGMA = replace(FED_ALPHA_CDP, name="fed-alpha-cdp-sigma", noise=Exponential(start=15.0, end=4.85))
QUANTILE = replace(FED_CDP, name="quantile", clip=Quantile(4.0))
ADACLIP = replace(FED_CDP, name="adaclip", clip=AdaClip())
FED_SLACK = replace(FED_CDP, name="fed-slack", clip=Slack(4.0))
FED_SUM = replace(FED_CDP, name="fed-sum", clip=Flat(0.3), noise=Constant(17.0))
PRUNING = Method(name="pruning", surface=Surface.UPDATE, prune=Smallest(0.3))
DSSGD = Method(name="dssgd", surface=Surface.UPDATE, prune=Dssgd(fraction=0.1, threshold=1e-4, bound=1e-2))
RANDOM_NOISE = Method(
    name="random-noise", surface=Surface.UPDATE, sensitivity=Fixed(1.0), noise=Constant(0.1)
)  # variance 0.01, as the paper

FED_ALPHA_CDP_AS_CODED = replace(
    FED_ALPHA_CDP, name="fed-alpha-cdp-as-coded", clip=OwnNorm(), sensitivity=L2MaxAsCoded()
)
DSSGD_NOISY = replace(DSSGD, name="dssgd-noisy", clip=PerLayer(4.0), sensitivity=ClipBound(), noise=Constant(6.0))


@dataclass(frozen=True, slots=True)
class NamedMethod:
    """A named value and what it means, for listings."""

    value: Method
    meaning: str


METHODS: dict[str, NamedMethod] = {
    method.name: NamedMethod(method, names.METHODS[method.name])
    for method in (
        NON_PRIVATE,
        FED_SDP,
        FED_SDP_CLIENT,
        FED_CDP,
        FED_ALPHA_CDP,
        FED_ALPHA_CDP_SIGMA,
        QUANTILE,
        ADACLIP,
        FED_SLACK,
        FED_SUM,
        DSSGD,
        PRUNING,
        RANDOM_NOISE,
        FED_ALPHA_CDP_AS_CODED,
        DSSGD_NOISY,
    )
}

DECAYS = names.DECAYS
SENSITIVITY_NAMES: dict[str, Sensitivity] = {
    "clip-bound": ClipBound(),
    "l2-max": L2Max(),
    "l2-max-of-mean": L2MaxOfMean(),
    "l2-max-as-coded": L2MaxAsCoded(),
}


def decay(name: str, start: float, end: float) -> Schedule:
    """Return a noise schedule by its name on the command line, from sigma_0 and the sigma_T it decays to."""
    match name:
        case "linear":
            return Linear(start=start, end=end)
        case "staircase":
            return Staircase(start=start, end=end)
        case "exponential":
            return Exponential(start=start, end=end)
        case "cyclic":
            return Cyclic(start=start, floor=end)
        case _:
            return Constant(start)
