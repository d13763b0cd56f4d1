"""The least memory that a plan needs, compared with what the machine has before anything is allocated."""

import math
import os
from pathlib import Path

import jax
import jax.numpy as jnp

from gradveil import keys
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation.ledger import numbers_noised, shape_read
from gradveil.federation.plan import Plan
from gradveil.models.regression import SoftmaxRegression
from gradveil.own_code import called, is_own
from gradveil.privacy.sanitize import needs_no_units
from gradveil.surface import Surface

_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
WORD = 4
"""Bytes of a float32 or int32."""


def needed(plan: Plan, dataset: Dataset) -> dict[str, int]:
    """Return the bytes that training needs at least, by what takes them: a lower bound, not an estimate.

    P parameters: W(t), its successor and the gradient; K updates, once as they come and once stacked; B gradients of
    single examples where the method needs them and the model cannot sum them unmade; the shards, int32 [N, |D_i|], and
    their shuffled copy. Data whose features are not extracted yet are counted as they are.
    """
    shape, classes = shape_read(plan, dataset.shape) or dataset.shape, len(dataset.classes)
    with called("model", plan.model):
        shapes = jax.eval_shape(lambda: plan.model.init(keys.root(0), shape, classes))
        if is_own(plan.model):  # ours, and those of other libraries, are known to take what they were made for
            jax.eval_shape(plan.model.apply, shapes, jax.ShapeDtypeStruct(shape, jnp.float32))
    parameters = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
    sent = max(numbers_noised(plan, shape, classes)) or parameters
    summed = isinstance(plan.model, SoftmaxRegression) and plan.sampling.fixed_size and needs_no_units(plan.method)
    per_example = plan.method.acts(Surface.EXAMPLE) and not summed
    return {
        f"a model of {parameters} parameters": 3 * WORD * parameters,
        f"the updates of cohort = {plan.cohort} clients": 2 * WORD * sent * plan.cohort,
        f"gradients of batch = {plan.batch} examples": WORD * parameters * plan.batch if per_example else 0,
        f"clients x client_size = {plan.clients} x {plan.client_size}": 2 * WORD * plan.clients * plan.client_size,
        f"rounds x local_steps = {plan.rounds} x {plan.local_steps}": 8 * plan.rounds * plan.local_steps,
        "the dataset": dataset.train.x.nbytes + dataset.test.x.nbytes,
    }


def refuse_beyond_memory(plan: Plan, dataset: Dataset) -> None:
    """Refuse a plan that does not fit into this machine's memory, naming what takes most."""
    parts, limit = needed(plan, dataset), memory()
    total, largest = sum(parts.values()), max(parts, key=lambda name: parts[name])
    if limit is not None and total > limit:
        raise BadInput(
            f"{largest}: takes {_size(parts[largest])}, the plan {_size(total)} in all, and this machine has "
            f"{_size(limit)}"
        )


def memory() -> int | None:
    """Return the bytes of memory of this machine, or of its container; None where the system does not say."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (ValueError, OSError):
        return None
    for path in map(Path, _CGROUPS):
        text = path.read_text().strip() if path.exists() else ""
        limits += [int(text)] if text.isdigit() else []
    return min(limits)


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
