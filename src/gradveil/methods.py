"""The protections that the paper compares, as values: each line differs from its parent in one part."""

from dataclasses import dataclass, replace

from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import OwnNorm, PerLayer
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Dssgd, Smallest
from gradveil.privacy.schedule import Constant, Cyclic, Exponential, Linear, Schedule, Staircase
from gradveil.privacy.sensitivity import ClipBound, Fixed, L2Max, L2MaxAsCoded, L2MaxOfMean, Sensitivity
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
    entry.value.name: entry
    for entry in (
        NamedMethod(NON_PRIVATE, "plain federated averaging; no protection"),
        NamedMethod(FED_SDP, "the server clips each update and noises their sum; clients and server see them raw"),
        NamedMethod(FED_SDP_CLIENT, "each client clips and noises its own update before it is sent"),
        NamedMethod(FED_CDP, "each client clips every example's gradient and noises every local step; S = C"),
        NamedMethod(
            FED_ALPHA_CDP, "Fed-CDP with noise scaled to the largest clipped norm (l2-max): no finite guarantee"
        ),
        NamedMethod(FED_ALPHA_CDP_SIGMA, "Fed-alphaCDP with a decaying noise scale: no finite guarantee"),
        NamedMethod(QUANTILE, "Fed-CDP whose clipping bound follows a noised quantile of the gradient norms"),
        NamedMethod(ADACLIP, "Fed-CDP that whitens each coordinate by a mean and spread learned from noised gradients"),
        NamedMethod(DSSGD, "each client shares a random tenth of its large coordinates, bounded; no guarantee"),
        NamedMethod(PRUNING, "each client zeroes the smallest coordinates of its update; no guarantee"),
        NamedMethod(RANDOM_NOISE, "each client adds N(0, 0.01) to its unclipped update; no guarantee"),
        NamedMethod(FED_ALPHA_CDP_AS_CODED, "Fed-alphaCDP by its authors' code: every example clipped to its own norm"),
        NamedMethod(DSSGD_NOISY, "DSSGD whose update is also clipped and noised before it is sent"),
    )
}

SENSITIVITY_NAMES: dict[str, Sensitivity] = {
    "clip-bound": ClipBound(),
    "l2-max": L2Max(),
    "l2-max-of-mean": L2MaxOfMean(),
    "l2-max-as-coded": L2MaxAsCoded(),
}


def decay(name: str, start: float, end: float) -> Schedule:
    """Make a noise schedule by its name on the command line, from sigma_0 and the sigma_T it decays to."""
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


DECAYS: dict[str, str] = {
    "constant": "sigma_t = sigma_0",
    "linear": "sigma_t = sigma_0 (1 - gamma t), reaching sigma_T at t = T",
    "staircase": "sigma_t = sigma_0 (1 - gamma floor(10 t / T)), reaching sigma_T at t = T",
    "exponential": "sigma_t = sigma_0 exp(-gamma t), reaching sigma_T at t = T",
    "cyclic": "cosine from sigma_0 towards 0, once over the run; sigma_T is the floor (0 as the paper prints it)",
}
