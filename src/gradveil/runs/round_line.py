"""The line that a round leaves in metrics.jsonl: how good the model is, what was done to gradients, what it took."""

import math
import time

import numpy as np

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.federation.engine import Population
from gradveil.federation.evaluate import Score, norm_quantiles, score
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import Round
from gradveil.federation.server import model_of
from gradveil.runs import store
from gradveil.runs.budget import Budget
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.run_records import CanariesRecord, NodesRecord, RoundLine
from gradveil.surface import Surface


def line_of(
    plan: Plan, dataset: Dataset, population: Population | None, budget: Budget, done: Round, seconds: float
) -> RoundLine:
    """Measure a finished round: the model, what was done to gradients, and what it took."""
    params, metrics = model_of(plan, done.state), done.metrics
    began = time.perf_counter()
    tested = score(plan.model, params, dataset.test)
    stop = _stop_score(plan, dataset, done, tested)
    stop_rmse = stop.rmse if plan.target_rmse is not None else None
    sigmas, noisy = plan.sigmas()[done.t], not plan.method.noise.silent
    sigma = float(sigmas.mean() if plan.method.surface is Surface.EXAMPLE else sigmas[0])
    sensitivity, bound = float(metrics.sensitivity), float(metrics.bound)
    spent, rounds_left = _spent(plan, budget, done)
    return RoundLine(
        round=done.t,
        accuracy=tested.accuracy,
        loss=_finite_or_none(tested.loss),
        stop_accuracy=stop.accuracy,
        sigma=sigma,
        sensitivity=_finite_or_none(sensitivity),
        clip=_finite_or_none(bound),
        unit_norm=_finite_or_none(float(metrics.unit_norm)),
        clipped_share=_finite_or_none(float(metrics.clipped)),
        equivalent_sigma=sigma * bound / sensitivity if noisy and sensitivity > 0 and np.isfinite(bound) else None,
        cohort=len(done.cohort),
        max_participations=int(done.state.participations.max()),
        spent=spent,
        rounds_left=rounds_left,
        norm_quantiles=_probe(population, plan, done) if plan.method.idle else None,
        state_sha256=store.state_digest(done.state),
        nodes=codec.decode(NodesRecord, done.remarks["nodes"]) if done.remarks else None,
        canaries=codec.decode(CanariesRecord, done.remarks["canaries"]) if "canaries" in done.remarks else None,
        attempts=done.attempts if done.remarks else None,
        seconds=seconds + time.perf_counter() - began,
        rmse=None if tested.rmse is None else _finite_or_none(tested.rmse * dataset.unit),
        stop_rmse=None if stop_rmse is None else _finite_or_none(stop_rmse * dataset.unit),
        chain="",  # `store.linked` sets it
    )


def _finite_or_none(measure: float) -> float | None:
    """Return None for what the engine could not see, as over a network, and for norms that overflowed."""
    return measure if math.isfinite(measure) else None


def _spent(plan: Plan, budget: Budget, done: Round) -> tuple[GuaranteeRecord | None, int | None]:
    """Account the rounds so far, and forecast how many more the budget affords if there is one.

    Without a budget only some twenty rounds of a run are accounted, since each takes a moment.
    """
    rounds_done, most = done.state.round, int(done.state.participations.max())
    limited = plan.max_epsilon is not None
    due = limited or rounds_done % max(1, plan.rounds // 20) == 0
    spent = GuaranteeRecord.of(budget.spent(rounds_done, most)) if due else None
    return spent, budget.forecast(rounds_done, most) if limited else None


def _stop_score(plan: Plan, dataset: Dataset, done: Round, tested: Score) -> Score:
    """Judge the target on the split held out for choices where there is one, else on the test split."""
    if not plan.has_target or dataset.validation is None:
        return tested
    return score(plan.model, model_of(plan, done.state), dataset.validation)


PROBE = 256


def _probe(population: Population | None, plan: Plan, done: Round) -> dict[str, float | None] | None:
    """Measure per-example layer norms on up to 256 examples of the cohort: a diagnostic, outside the training loop."""
    if population is None:
        return None
    rows = population.rows(done.cohort)
    if not len(rows):
        return {}
    probed = rows[np.linspace(0, len(rows) - 1, PROBE).astype(int)]
    x, y = population.x[probed], population.y[probed]
    return {q: _finite_or_none(norm) for q, norm in norm_quantiles(plan.model, done.state.params, x, y).items()}


def suggested_clip(lines: list[RoundLine]) -> tuple[float, float] | None:
    """Return the paper's advice for C, 1.5 to 2 times the l2-max of a non-private run, from its largest round."""
    norms = [line.norm_quantiles["1"] for line in lines if line.norm_quantiles]
    finite = [norm for norm in norms if norm is not None]
    return (1.5 * max(finite), 2 * max(finite)) if finite and len(finite) == len(norms) else None
