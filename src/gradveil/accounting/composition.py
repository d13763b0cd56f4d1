"""Base and advanced composition, as the paper uses them: an epsilon a step, then a sum.

A step with multiplier z costs epsilon_0 = sqrt(2 ln(1.25 / delta)) / z, and sampling at rate q makes it
epsilon' = ln(1 + q (e^epsilon_0 - 1)). Their delta grows with the number of steps; the paper leaves that out, and these
functions give the paper's figures.
"""

import math

from gradveil.accounting.steps import Step, Steps, is_noiseless


def amplified_epsilon(step: Step, delta: float) -> float:
    """Return epsilon' of one step."""
    epsilon = math.sqrt(2 * math.log(1.25 / delta)) / step.z
    if epsilon < 50:
        return math.log1p(step.q * math.expm1(epsilon))
    return epsilon + math.log(step.q + (1 - step.q) * math.exp(-epsilon))


def base(steps: Steps, delta: float) -> float:
    """Return sum epsilon'."""
    if is_noiseless(steps):
        return math.inf
    return math.fsum(n * e for n, e in _costs(steps, delta))


def advanced_standard(steps: Steps, delta: float) -> float:
    """Return sqrt(2 ln(1 / delta) sum epsilon'^2) + sum epsilon' (e^epsilon' - 1): Dwork, Rothblum and Vadhan."""
    if is_noiseless(steps):
        return math.inf
    costs = _costs(steps, delta)
    if any(e > 700 for _, e in costs):
        return math.inf
    return _root(costs, delta) + math.fsum(n * e * math.expm1(e) for n, e in costs)


def advanced_as_coded(steps: Steps, delta: float) -> float:
    """Return the variant of the authors' code, whose last term is sum epsilon' (e^epsilon' - 1) / (e^epsilon' + 1)."""
    if is_noiseless(steps):
        return math.inf
    costs = _costs(steps, delta)
    return _root(costs, delta) + math.fsum(n * e * math.tanh(e / 2) for n, e in costs)


def _costs(steps: Steps, delta: float) -> list[tuple[int, float]]:
    return [(step.times, amplified_epsilon(step, delta)) for step in steps if step.times and step.q > 0]


def _root(costs: list[tuple[int, float]], delta: float) -> float:
    return math.sqrt(2 * math.log(1 / delta) * math.fsum(n * e * e for n, e in costs))
