"""Opacus' optimizer, one step of it, for `gradveil audit --mechanism`.

    gradveil audit --mechanism examples.audit_opacus:expected_lot --noise-multiplier 1
    gradveil audit --mechanism examples.audit_opacus:lot_of_the_data --noise-multiplier 1

A unit is the gradient of one example. Needs torch and opacus, which the peers' environment of `make audit-peers` has.
"""

from typing import Any

import numpy as np
import torch
from opacus.optimizers import DPOptimizer

CLIP, NOISE_MULTIPLIER, LOT = 1.0, 1.0, 16


def expected_lot(units: Any, seed: int) -> Any:
    """Return the noised mean gradient where the lot size is a public number, [d]."""
    return _step(units, seed, LOT)


def lot_of_the_data(units: Any, seed: int) -> Any:
    """Return the noised mean gradient where the lot size is the number of examples, [d].

    `PrivacyEngine.make_private` does that: it takes the expected lot from the length of the dataset, which is private
    where neighbors differ in one record (issue 819 of Opacus).
    """
    return _step(units, seed, max(len(units), 1))


def _step(units: Any, seed: int, lot: int) -> Any:
    """Clip, sum, noise and divide by the lot: what Opacus does before the optimizer steps."""
    parameter = torch.nn.Parameter(torch.zeros(units.shape[1], dtype=torch.float64))
    optimizer = DPOptimizer(
        torch.optim.SGD([parameter], lr=1.0),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIP,
        expected_batch_size=lot,
        generator=torch.Generator().manual_seed(seed),
    )
    parameter.grad_sample = torch.from_numpy(np.ascontiguousarray(units, np.float64))
    optimizer.pre_step()
    return parameter.grad.numpy().copy()
