"""The demonstration: a protected model with a finite guarantee, and beside it the paper's method and no protection."""

from dataclasses import replace

from gradveil.methods import FED_ALPHA_CDP, FED_CDP, NON_PRIVATE
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant

CLIP, SIGMA = 1.0, 4.0


def protected(method: Method) -> Method:
    """Set a method up for the digits: a flat clip at 1 and noise scale 4, where it has the paper's clip and noise."""
    if method.clip != PerLayer(4.0):
        return method
    noise = Constant(SIGMA) if method.noise == Constant(6.0) else method.noise
    return replace(method, clip=Flat(CLIP), noise=noise)


METHODS = (protected(FED_CDP), protected(FED_ALPHA_CDP), NON_PRIVATE)
