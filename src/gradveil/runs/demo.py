"""The demonstration: a protected model with a finite guarantee, and beside it the paper's method and no protection."""

from gradveil.methods import FED_ALPHA_CDP, FED_CDP, NON_PRIVATE

METHODS = (FED_CDP, FED_ALPHA_CDP, NON_PRIVATE)
