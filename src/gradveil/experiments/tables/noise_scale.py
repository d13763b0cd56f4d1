"""Beyond the paper: MNIST at the noise of its text (sigma = 6) and of its authors' code (sigma = 0.5), each tuned."""

from dataclasses import replace

from gradveil.experiments.tables.works import Tuned
from gradveil.federation.plan import Plan
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP, NON_PRIVATE
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant
from gradveil.surface import Surface

SEARCH_ROUNDS = 5
PLAIN = (0.03, 0.1, 0.3)
UNDER_NOISE = {0.5: (0.01, 0.03, 0.1), 6.0: (0.0005, 0.002, 0.01)}
SIGMAS = (0.5, 6.0)


def noised(method: Method, sigma: float) -> Method:
    """Give a method another constant noise scale."""
    return method if method.noise.silent else replace(method, noise=Constant(sigma))


def work(plan: Plan, sigma: float) -> Tuned:
    """Tune a plan whose method has this noise scale; where noise enters every local step, smaller rates are tried."""
    in_steps = plan.method.surface is Surface.EXAMPLE and not plan.method.noise.silent
    return Tuned(plan, UNDER_NOISE[sigma] if in_steps else PLAIN, min(SEARCH_ROUNDS, plan.rounds))


METHODS = (NON_PRIVATE, FED_SDP, FED_CDP, FED_ALPHA_CDP)
