"""What participation costs: the releases of a client's rounds as steps that an accountant can compose."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from gradveil.accounting import caveats
from gradveil.accounting.allocated_clients import farthest
from gradveil.accounting.release import Release
from gradveil.accounting.steps import Step, grouped, merged

OVERFLOW = 1e-15
"""Probability that one batch of random size is truncated to its capacity, which is taken from delta for every batch."""


def worst(releases: Sequence[Release], participations: int) -> tuple[Release, ...]:
    """Return the costliest rounds that a client can have participated in, as many as its participations.

    Unsampled releases are ordered by sum 1 / z^2 over the batches that can hold a record. Sampled ones have no such
    order, so the smallest multipliers of all rounds are taken together: less noise at the same rate is never cheaper.
    """
    times = max(participations, 0)
    if any(map(is_sampled, releases)):
        allocated = releases[0].example_sampling == "allocation"
        return _smallest_passes(releases, times) if allocated else _smallest(releases, times)
    return tuple(sorted(releases, key=lambda r: -_cost(r))[:times])


def _smallest(releases: Sequence[Release], times: int) -> tuple[Release, ...]:
    """Fill the first rounds with the smallest sigmas of all; rounds differ in nothing else."""
    rounds = releases[:times]
    sigmas = sorted(sigma for r in releases for sigma in r.sigmas)
    sizes = sorted((len(r.sigmas) for r in releases), reverse=True)[: len(rounds)]
    cuts = [tuple(sigmas[end - size : end]) for end, size in zip(accumulate(sizes), sizes, strict=True)]
    return tuple(r if r.sigmas == cut else replace(r, sigmas=cut) for r, cut in zip(rounds, cuts, strict=True))


def is_sampled(release: Release) -> bool:
    """Whether batches of examples are drawn in a way that amplifies privacy."""
    drawn = release.example_sampling in ("poisson", "allocation")
    return drawn and release.unit == "example" and release.example_rate < 1


def _smallest_passes(releases: Sequence[Release], times: int) -> tuple[Release, ...]:
    """Give pass i of the first rounds the smallest sigmas that pass i has in any round, each for the whole pass."""
    count = lots(releases[0])
    least = np.sort([[min(cut) for cut in _passes(r.sigmas, count)] for r in releases], axis=0)[:times]
    steps = len(releases[0].sigmas)
    cuts = [tuple(np.repeat(row, count)[:steps].tolist()) for row in least]
    return tuple(
        r if r.sigmas == cut else replace(r, sigmas=cut) for r, cut in zip(releases[:times], cuts, strict=True)
    )


def _passes(values: Sequence[float], count: int) -> list[Sequence[float]]:
    return [values[i : i + count] for i in range(0, len(values), count)]


def lots(release: Release) -> int:
    """Return among how many batches a record is allocated: |D_i| / B, rounded up."""
    return math.ceil((1 - 1e-12) / release.example_rate)


def _allocated(z: Sequence[float], count: int) -> tuple[Step, ...]:
    """Return a participation whose records are allocated anew in every pass of `count` batches, the last cut short.

    Less noise reveals more, so every pass is taken to have the least noise of its batches.
    """
    if count == 1:
        return grouped(z, 1.0)
    return merged([Step(min(cut), 1 / count, 1, lots=len(cut)) for cut in _passes(z, count)])


def _cost(release: Release) -> float:
    """Return the cost of a round to a record: sum 1 / z^2 over the batches that can hold it."""
    multipliers = (
        sorted(release.noise_multipliers)[: release.touches]
        if release.example_sampling == "fixed-pass"
        else release.noise_multipliers
    )
    return math.fsum(1 / z**2 for z in multipliers)


@lru_cache(maxsize=4096)
def batches(release: Release, count: Release | None = None) -> tuple[Step, ...]:
    """Return one participation of a record as steps: how often it is in a batch, and under how much noise.

    A count is made on the first batch, so both are released together: 1 / z^2 of that step is the sum of theirs. One
    count serves the whole cohort, of which c clients may hold the record: it is what c counts of their own would add up
    to, each with noise smaller by sqrt(c).
    """
    z = list(release.noise_multipliers)
    if release.example_sampling == "replacement":
        z = [s / release.expected for s in z]
    if count is not None:
        repeats = release.expected if release.example_sampling == "replacement" else 1.0
        noise = count.noise_multipliers[0] / (repeats * math.sqrt(release.copies))
        z[0] = 1 / math.hypot(1 / z[0], 1 / noise) if noise > 0 else 0.0
    if release.example_sampling == "poisson":
        return grouped(z, release.example_rate)
    if release.example_sampling == "allocation":
        return _allocated(z, lots(release))
    return grouped(sorted(z)[: release.touches] if release.example_sampling == "fixed-pass" else z, 1.0)


def remarks(release: Release) -> tuple[str, ...]:
    """Return the caveats of a release's sampling."""
    return (caveats.REPLACEMENT,) if release.example_sampling == "replacement" else ()


NOISE_END = 9.1
"""Standard deviations that the noise is sure to reach; `gradveil.normals` is cut off a little later."""


@lru_cache(maxsize=4096)
def beyond(release: Release, reach: float, whole: bool) -> float:
    """Bound the probability that hiding a unit in a round would take noise beyond its cut-off.

    A unit moves a sum by 1 / z standard deviations (`reach` times that where it is replaced); all records of a client
    (`whole`) by as many of them as are in the batch.
    """
    z = np.asarray(release.noise_multipliers)
    if not whole or release.unit == "client":
        return float(np.sum(_rate(release) * ndtr(reach / z - NOISE_END)))
    if not is_sampled(release):
        return float(np.sum(ndtr(reach * release.capacity / z - NOISE_END)))
    k = np.arange(1, release.capacity + 1)
    chances = binom.pmf(k, release.client_size, _rate(release))
    return float(np.sum(chances[:, None] * ndtr(reach * k[:, None] / z - NOISE_END)))


def _rate(release: Release) -> float:
    """Return the probability that a batch holds a given record."""
    if not is_sampled(release):
        return 1.0
    return release.example_rate if release.example_sampling == "poisson" else 1 / lots(release)


@lru_cache(maxsize=4096)
def one_round(release: Release, count: Release | None) -> tuple[Step, ...]:
    """Return one participation as the model shows it: noised batches, or an update under the noise on the mean."""
    if release.unit == "example":
        alone = release.copies == 1 and count is None
        return pooled(release, release.cohort) if alone and adds_up(release) else batches(release, count)
    factor = math.sqrt(release.cohort) if adds_up(release) else 1.0
    extra = grouped(count.noise_multipliers, 1.0) if count is not None else ()
    return merged(grouped([z * factor for z in release.noise_multipliers], 1.0), extra)


UNSAMPLED = ("fixed-pass", "whole")


def adds_up(release: Release) -> bool:
    """Whether the noise that clients draw adds up in the sum over their cohort, as it is seen there.

    It does where the cohort has a known size, its sum is all that is learned, and what each client sends is its sum of
    units plus Gaussian noise: whole updates, or examples of one local step (later steps start from noised parameters),
    with nothing drawn.
    """
    one_sum = release.unit == "client" or (len(release.sigmas) == 1 and release.example_sampling in UNSAMPLED)
    return release.surface > 0 and release.cohort_sampling == "fixed" and release.sum_only and one_sum


def pooled(release: Release, clients: int) -> tuple[Step, ...]:
    """Return one round as its sum shows it, under the noise of so many clients; c copies move it c times as far."""
    copies = release.copies if release.unit == "example" else 1
    return grouped([z * math.sqrt(clients) / copies for z in release.noise_multipliers], 1.0)


@lru_cache(maxsize=4096)
def whole_client(release: Release) -> tuple[Step, ...]:
    """Return one participation of a client all of whose records change at once.

    A Poisson batch holds a binomial number of them, at most its capacity. An allocated pass is one Gaussian that moves
    as far as its random places let it, but for a chance of OVERFLOW a pass. Any other batch is all theirs.
    """
    if release.unit == "client":
        return one_round(release, None)
    if release.example_sampling == "poisson" and release.example_rate < 1:
        steps = grouped(release.noise_multipliers, release.example_rate)
        return tuple(step._replace(units=release.client_size, most=release.capacity) for step in steps)
    if is_sampled(release):
        count, size, most = lots(release), release.client_size, release.capacity
        cuts = _passes(release.noise_multipliers, count)
        return grouped([min(cut) / farthest(size, count, len(cut), most, OVERFLOW) for cut in cuts], 1.0)
    return grouped([z / release.capacity for z in release.noise_multipliers], 1.0)
