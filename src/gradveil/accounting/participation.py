"""What taking part costs: the releases of a client's rounds as steps that an accountant can compose."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from gradveil.accounting import caveats
from gradveil.accounting.release import Release
from gradveil.accounting.steps import Step, grouped, merged


def worst(releases: Sequence[Release], participations: int) -> tuple[Release, ...]:
    """Give as many rounds as a client took part in, none of which is cheaper for it than any that it really did.

    Unsampled releases are ordered by sum 1 / z^2 over the batches that can hold a record. Sampled ones have no such
    order, so the smallest multipliers of all rounds are taken together: less noise at the same rate is never cheaper.
    """
    times = max(participations, 0)
    if any(r.example_sampling == "poisson" and r.unit == "example" and r.example_rate < 1 for r in releases):
        return _smallest(releases, times)
    return tuple(sorted(releases, key=lambda r: -_cost(r))[:times])


def _smallest(releases: Sequence[Release], times: int) -> tuple[Release, ...]:
    """Fill the first rounds with the smallest sigmas of all; rounds differ in nothing else."""
    kept = releases[:times]
    sigmas = sorted(sigma for r in releases for sigma in r.sigmas)
    sizes = sorted((len(r.sigmas) for r in releases), reverse=True)[: len(kept)]
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    cuts = [tuple(sigmas[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
    return tuple(replace(r, sigmas=cut) for r, cut in zip(kept, cuts, strict=True))


def _cost(release: Release) -> float:
    """Give what a round's steps cost a record that they may hold: sum 1 / z^2 over the batches that can hold it."""
    held = (
        sorted(release.multipliers)[: release.touches]
        if release.example_sampling == "fixed-pass"
        else release.multipliers
    )
    return math.fsum(1 / z**2 for z in held)


@lru_cache(maxsize=4096)
def batches(release: Release, count: Release | None = None) -> tuple[Step, ...]:
    """Give one participation of a record as steps: how often it is in a batch, and behind how much noise.

    A count is made on the first batch, so both are released together: 1 / z^2 of that step is the sum of theirs.
    """
    z = list(release.multipliers)
    if release.example_sampling == "replacement":
        z = [s / release.expected for s in z]
    if count is not None:
        most = release.expected if release.example_sampling == "replacement" else 1.0
        noise = count.multipliers[0] / most
        z[0] = 1 / math.hypot(1 / z[0], 1 / noise) if noise > 0 else 0.0
    if release.example_sampling == "poisson":
        return grouped(z, release.example_rate)
    return grouped(sorted(z)[: release.touches] if release.example_sampling == "fixed-pass" else z, 1.0)


def remarks(release: Release) -> tuple[str, ...]:
    """Give the sentences that its sampling asks for."""
    return (caveats.REPLACEMENT,) if release.example_sampling == "replacement" else ()


@lru_cache(maxsize=4096)
def one_round(release: Release, count: Release | None) -> tuple[Step, ...]:
    """Give what one participation puts into the model: batches, or an update behind the noise that reaches the mean."""
    if release.unit == "example":
        return batches(release, count)
    added = math.sqrt(release.cohort) if release.surface == 1 and release.cohort_sampling == "fixed" else 1.0
    extra = grouped(count.multipliers, 1.0) if count is not None else ()
    return merged(grouped([z * added for z in release.multipliers], 1.0), extra)


@lru_cache(maxsize=4096)
def whole_client(release: Release) -> tuple[Step, ...]:
    """Give one participation of a client all of whose records change at once.

    A Poisson batch holds a binomial number of them, at most its capacity; any other batch is all theirs.
    """
    if release.unit == "client":
        return one_round(release, None)
    if release.example_sampling == "poisson" and release.example_rate < 1:
        held = round(release.expected / release.example_rate)
        steps = grouped(release.multipliers, release.example_rate)
        return tuple(step._replace(units=held, most=release.capacity) for step in steps)
    return grouped([z / release.capacity for z in release.multipliers], 1.0)
