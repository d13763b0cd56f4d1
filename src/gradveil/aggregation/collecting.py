"""The server's side of an attempt: all answers or nothing, and a sum that can be one."""

from collections.abc import Mapping

import numpy as np

from gradveil.aggregation import ring
from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.masks import Attempt
from gradveil.aggregation.ring import Units


class Spoiled(Exception):
    """An attempt gave no sum. It was released all the same: whoever answered has paid for it."""


def collected(attempt: Attempt, answers: Mapping[str, SumAnswer], records: int, deviation: float) -> Units:
    """Return the sum of all answers, in which masks have canceled, uint64 [size]; Spoiled if it is none.

    records: of all nodes together. deviation: the standard deviation of the whole noise, in units. Who spoiled a sum of
    the right form cannot be told.
    """
    missing = [card.name for card in attempt.cards if card.name not in answers]
    if missing:
        raise Spoiled(f"no answer from {', '.join(missing)}; the others' answers say nothing without it")
    strangers = sorted(answers.keys() - {card.name for card in attempt.cards})
    if strangers:
        raise Spoiled(f"{', '.join(strangers)} answered and was not asked")
    for name, answer in answers.items():
        if answer.attempt != attempt.digest:
            raise Spoiled(f"{name} answered something else than was asked")
        if answer.masked.shape != (attempt.size,) or answer.masked.dtype != np.uint64:
            raise Spoiled(f"{name} sent {answer.masked.shape} {answer.masked.dtype}, not ({attempt.size},) uint64")
    units = ring.total(answer.masked for answer in answers.values())
    if not ring.plausible(units, records, deviation):
        raise Spoiled("the sum is larger than honest answers can make it; a node was told or sent something else")
    return units
