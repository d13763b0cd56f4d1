"""Whether one record changes how others are read: scaling by private rows moves all of them, and no clip bounds it."""

import math
from typing import NamedTuple

import numpy as np

from gradveil.auditing.absence import NOBODY
from gradveil.auditing.bounds import epsilon_of_mu
from gradveil.auditing.composing import VIEWS, Lower
from gradveil.auditing.neighbors import LOUD
from gradveil.auditing.probe import AuditStage, Host
from gradveil.auditing.replay_level import FALSE_ALARMS, ReplayEffort
from gradveil.auditing.replayer import Replayer, Views
from gradveil.auditing.subject import EpsilonClaim, Subject
from gradveil.data.dataset import readable
from gradveil.federation.engine import Population
from gradveil.keys import Keys
from gradveil.surface import Surface


class MovedOthers(NamedTuple):
    """What is seen of the other records of a client when one record is changed far away, and in how many releases."""

    views: Views
    rounds: int
    steps: int


def moved_others(subject: Subject, stage: AuditStage, effort: ReplayEffort, seed: int) -> MovedOthers | None:
    """Replay a client whose other records are read as they are and as the outlier leaves them; None if none moves.

    The gradient of a record is the record, cut to the stage's length and as large as the clip allows.
    """
    plan = subject.plan
    if subject.neighbor is None or plan.method.surface is not Surface.EXAMPLE:
        return None
    shard = np.asarray(Population.of(plan, subject.dataset).shards[0])
    own, moved = (_rows(stage, readable(data.train.x)[shard]) for data in (subject.dataset, subject.neighbor))
    others = shard != 0  # the record that was changed is the first of the training split
    if np.array_equal(own[others], moved[others]):
        return None
    for rows in (own, moved):
        rows[~others] = stage.absent
    roots = [Keys.of((seed + i) % 2**32, False) for i in range(effort.keys)]
    replayer = Replayer(stage, seed, 1 - FALSE_ALARMS / 100)
    moment = replayer.moment(len(plan.preparation), stage.start(roots[0]), roots)
    views = replayer.compared(moment, moment.bound * LOUD * np.stack([own, moved]), np.array([NOBODY, NOBODY]))
    return MovedOthers(views, min(plan.rounds - len(plan.preparation), subject.participations), plan.local_steps)


def _rows(stage: AuditStage, records: Host) -> Host:
    """Return records as directions of the stage's length, [n, d]."""
    flat = np.asarray(records, np.float32).reshape(len(records), -1)[:, : stage.size]
    cut: Host = np.pad(flat, ((0, 0), (0, stage.size - flat.shape[1])))
    directions: Host = cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1e-30)
    return directions


def of_encoding(moved: MovedOthers | None, claim: EpsilonClaim) -> Lower:
    """Return the lower bound that the move of the others proves for a claim about examples.

    To change a record is to remove it and to add another, so one of the two moves the others at least half as far. The
    root mean square of mu over the keys stands for a round.
    """
    if moved is None or claim.unit != "example":
        return Lower(0.0, "")
    sees = VIEWS[claim.threat_model]
    times = moved.rounds * (moved.steps if sees == "steps" else 1)
    mu = math.sqrt(times * np.mean(np.square(getattr(moved.views, sees).mus))) / 2
    why = "one record changes how the others are scaled, and no clip bounds that"
    return Lower(epsilon_of_mu(mu, claim.delta), why)
