"""Flower's central differential privacy, one round of it, for `gradveil audit --mechanism`.

    gradveil audit --mechanism examples.audit_flower:fixed_clipping --noise-multiplier 1
    gradveil audit --mechanism examples.audit_flower:adaptive_clipping --noise-multiplier 1

A unit is a client's update. Each goes through Flower's own mod; the strategy wrapper averages what the mods send and
adds the noise. The cohort has 16 clients (the default of --units); one that is missing sends next to nothing, since
Flower claims nothing of cohorts that vary. Needs flwr, which `pip install gradveil[flower]` brings.
"""

import logging
from functools import cache
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    FedAvg,
)
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # without these Flower makes no message
logging.getLogger("flwr").setLevel(logging.CRITICAL)
COHORT, CLIP, NOISE_MULTIPLIER = 16, 1.0, 1.0
NEXT_TO_NOTHING = 1e-12
"""The update of a client that is missing; Flower divides by the norm and fails at zero."""


def fixed_clipping(units: Any, seed: int) -> Any:
    """Return the model after a round with `fixedclipping_mod`, [d]."""
    strategy = DifferentialPrivacyClientSideFixedClipping(FedAvg(), NOISE_MULTIPLIER, CLIP, COHORT)
    return _round(strategy, fixedclipping_mod, units, seed)


def adaptive_clipping(units: Any, seed: int) -> Any:
    """Return the model after a round with `adaptiveclipping_mod` and ln C of the next round, [d + 1].

    The noise multiplier is that of both releases together, as the wrapper divides it.
    """
    strategy = DifferentialPrivacyClientSideAdaptiveClipping(FedAvg(), NOISE_MULTIPLIER, COHORT, CLIP)
    model = _round(strategy, adaptiveclipping_mod, units, seed)
    return np.append(model, np.log(strategy.clipping_norm))


def _round(strategy: Any, mod: Any, units: Any, seed: int) -> Any:
    """Let the clients' updates pass the mod and the strategy; Flower draws its noise from NumPy's global generator."""
    cohort = np.zeros((COHORT, units.shape[1]))
    cohort[: len(units)] = units
    cohort[~cohort.any(axis=1)] = NEXT_TO_NOTHING
    np.random.seed(seed % 2**32)
    arrays, _ = strategy.aggregate_train(1, _replies(mod, cohort.tobytes(), strategy.clipping_norm))
    return arrays.to_numpy_ndarrays()[0]


@cache
def _replies(mod: Any, cohort: bytes, clip: float) -> list[Message]:
    """Return what the mods of a cohort send; nothing is random in it, so other seeds need no other."""
    return [_reply(mod, update, clip) for update in np.frombuffer(cohort).reshape(COHORT, -1)]


def _reply(mod: Any, update: Any, clip: float) -> Message:
    """Return what a client's mod sends to the server, where the client sends a model of zeros plus its update."""
    start, config = np.zeros(len(update)), ConfigRecord({"clipping_norm": clip})
    order: dict[str, Any] = {"arrays": ArrayRecord([start]), "config": config}

    def app(message: Message, context: Any) -> Message:
        records: dict[str, Any] = {
            "arrays": ArrayRecord([start + update]),
            "metrics": MetricRecord({"num-examples": 1}),
        }
        return Message(RecordDict(records), reply_to=message)

    reply: Message = mod(Message(RecordDict(order), dst_node_id=1, message_type="train"), None, app)
    return reply
