"""From releases to guarantees: what each adversary sees decides how losses add up.

central          sees only the models of all rounds; the draw of a Poisson cohort is secret and hides a participation.
central-visible  sees only the models, but can tell from them whether a client took part: its other records show it.
server           honest but curious: sees every update with its client's name; batches are secret.
type2-secret     also sees every local step's noised batch gradient; batches are secret.
type2-known      also knows which records are in each batch, or sees every example's noised gradient.
client-central, client-server   as central and server, for all records of one client at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from gradveil.accounting import guarantee, tight
from gradveil.accounting.guarantee import Guarantee
from gradveil.accounting.release import Release
from gradveil.accounting.steps import Step, grouped, merged, repeated

OVERFLOW = 1e-15
"""Probability that one Poisson batch is cut to its capacity."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a run released so far, the most often that any client took part, and where its noise came from.

    caveats: sentences about the data that come first in every guarantee.
    """

    releases: tuple[Release, ...]
    participations: int
    noise_source: str = "secret"
    caveats: tuple[str, ...] = ()

    @property
    def sums(self) -> tuple[Release, ...]:
        """The noised sums, one a round."""
        return tuple(r for r in self.releases if r.part == "sum")

    @property
    def counts(self) -> tuple[Release, ...]:
        """The noised counts of an adaptive clip."""
        return tuple(r for r in self.releases if r.part == "count")


class Loss(NamedTuple):
    """An epsilon with the sentences that belong to it."""

    epsilon: float
    caveats: tuple[str, ...] = ()


Threat = Callable[[Ledger, float, str], Loss]

NO_NOISE = "Nothing hides a unit: no noise is added, or units are not clipped."
DATA_DEPENDENT = (
    "The noise is scaled to the private gradients (l2-max), so its variance gives them away whatever sigma is; "
    "see docs/soundness.md."
)
RAW_AT_SERVER = "Noise joins only at the server, which sees every update as it is."
RAW_COUNT = "The clip's counts reach the server without noise; only their sum is noised."
RAW_IN_CLIENT = "Noise joins only after local training, so what happens inside a client is bare."
IN_MEMORY = (
    "Un-noised example gradients exist in the client's memory until they are summed; who reads them is not covered."
)
HIDDEN = (
    "It presumes that nobody can tell from the models whether a client took part; a client's other records may "
    "show it, so quote central-visible instead."
)
REPLACEMENT = "Sampling with replacement may put a record into a batch B times, which is assumed here."
CUT = "So much is lost already that the rare cut of a Poisson batch to its capacity is not covered by delta any more."
COPIES = "Some records are held by several clients; every copy is counted."


def guarantees(ledger: Ledger, delta: float, adjacency: str, threats: Sequence[str] = ()) -> list[Guarantee]:
    """Account a ledger against every adversary, or those named."""
    return [account(ledger, delta, adjacency, name) for name in threats or THREATS]


@lru_cache(maxsize=256)
def account(ledger: Ledger, delta: float, adjacency: str, threat: str) -> Guarantee:
    """Account a ledger against one adversary."""
    loss = _refusal(ledger) or _with_cut_batches(ledger, delta, adjacency, THREATS[threat])
    first = ledger.sums[0] if ledger.sums else None
    by_client = threat.startswith("client") or (first is not None and first.unit == "client")
    seeded = (guarantee.SEEDED,) if ledger.noise_source == "seeded" else ()
    copied = (COPIES,) if first is not None and first.copies > 1 and not by_client else ()
    return Guarantee(
        epsilon=loss.epsilon,
        delta=delta,
        unit="client" if by_client else "example",
        threat_model=threat,
        adjacency=adjacency,
        sampling=_sampling(first),
        accountant="pld",
        noise_source=ledger.noise_source,
        caveats=(*ledger.caveats, *loss.caveats, *copied, *seeded, guarantee.PARAMETERS_ONLY, guarantee.SEARCH),
    )


def _sampling(release: Release | None) -> str:
    if release is None:
        return "nothing was released"
    examples = f"{release.example_sampling} batches at rate {release.example_rate:g}"
    return f"{examples}, {release.cohort_sampling} cohorts at rate {release.cohort_rate:g}"


def _refusal(ledger: Ledger) -> Loss | None:
    """Give infinity where no adversary matters: noise that depends on the data, or none at all."""
    if any(r.data_dependent for r in ledger.sums):
        return Loss(math.inf, (DATA_DEPENDENT,))
    if any(z <= 0 for r in ledger.sums for z in r.multipliers):
        return Loss(math.inf, (NO_NOISE,))
    return None


def _with_cut_batches(ledger: Ledger, delta: float, adjacency: str, threat: Threat) -> Loss:
    """Account with the part of delta that is left when Poisson batches may be cut, with probability eta in all.

    Cutting turns (epsilon, d) into (epsilon, d + (1 + e^epsilon) eta), so that much of delta is kept back.
    """
    cut = (r for r in ledger.sums if r.unit == "example" and r.example_sampling == "poisson")
    eta = OVERFLOW * sum(len(r.sigmas) * r.copies for r in cut)
    kept = 1e-6 * delta if eta else 0.0
    for _ in range(3):
        loss = threat(ledger, delta - kept, adjacency)
        needed = eta * (1 + math.exp(min(loss.epsilon, 700.0)))
        if needed <= kept:
            return loss
        kept = 2 * needed
        if kept >= delta / 2:
            break
    return Loss(math.inf if eta else loss.epsilon, (*loss.caveats, CUT) if eta else loss.caveats)


def worst(releases: Sequence[Release], participations: int) -> tuple[Release, ...]:
    """Give the rounds of a client that took part that often, in those rounds that cost most."""
    return tuple(sorted(releases, key=lambda r: -_cost(r))[: max(participations, 0)])


def _cost(release: Release) -> float:
    """Give what a round's steps cost a record that they may hold: sum 1 / z^2 over the batches that can hold it."""
    held = (
        sorted(release.multipliers)[: release.touches]
        if release.example_sampling == "fixed-pass"
        else release.multipliers
    )
    return math.fsum(1 / z**2 for z in held)


def _batches(release: Release, count: Release | None = None) -> tuple[Step, ...]:
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


def _remarks(release: Release) -> tuple[str, ...]:
    return (REPLACEMENT,) if release.example_sampling == "replacement" else ()


def server(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Compose the worst client's participations; a record held c times took part c times as often."""
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    if ledger.counts or first.surface == 0:
        return Loss(math.inf, (RAW_COUNT if ledger.counts else RAW_AT_SERVER,))
    rounds = worst(ledger.sums, ledger.participations)
    if first.unit == "client":
        return Loss(tight.pld(merged(*(grouped(r.multipliers, 1.0) for r in rounds)), delta, adjacency))
    steps = repeated(merged(*map(_batches, rounds)), first.copies)
    return Loss(tight.pld(steps, delta, adjacency), _remarks(first))


def type2_secret(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Account as the server does, whose bound already grants every iterate; noised examples show who is in a batch."""
    if ledger.sums and ledger.sums[0].unit == "client":
        return Loss(math.inf, (RAW_IN_CLIENT,))
    if ledger.sums and ledger.sums[0].draw == "each":
        return type2_known(ledger, delta, adjacency)
    loss = server(ledger, delta, adjacency)
    return Loss(loss.epsilon, (*loss.caveats, IN_MEMORY))


def type2_known(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Compose without amplification: in a batch that is known to hold the record, sampling hides nothing."""
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    if first.unit == "client":
        return Loss(math.inf, (RAW_IN_CLIENT,))
    if ledger.counts:
        return Loss(math.inf, (RAW_COUNT,))
    alone = math.sqrt(first.expected) if first.draw == "each" else 1.0
    steps = repeated(merged(*map(_batches, worst(ledger.sums, ledger.participations))), first.copies)
    seen = tuple(step._replace(z=step.z / alone) for step in steps)
    remarks = _remarks(first) if first.draw == "each" else (*_remarks(first), IN_MEMORY)
    return Loss(tight.pld_with_visible_draws(seen, delta, adjacency), remarks)


def central_visible(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Compose rounds that happen to a record with the cohort's rate, each of which shows whether it happened."""
    return _central(ledger, delta, adjacency, hidden=False)


def central(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Let a secret Poisson cohort hide the participation; a cohort of fixed size is accounted as visible."""
    secret = bool(ledger.sums) and ledger.sums[0].cohort_sampling == "poisson"
    loss = _central(ledger, delta, adjacency, hidden=secret)
    by_example = bool(ledger.sums) and ledger.sums[0].unit == "example"
    return Loss(loss.epsilon, (*loss.caveats, HIDDEN)) if secret and by_example else loss


def _central(ledger: Ledger, delta: float, adjacency: str, hidden: bool) -> Loss:
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    counted = {r.round: r for r in ledger.counts}
    rounds = [_one_round(r, counted.get(r.round)) for r in ledger.sums]
    copies = first.copies if first.unit == "example" else 1
    epsilon = tight.pld_of_rounds(rounds, copies, first.cohort_rate, delta, adjacency, hidden)
    # Who sees only models sees no more than a server in whose every round the client took part.
    at_most = server(replace(ledger, participations=len(ledger.sums)), delta, adjacency).epsilon
    return Loss(min(epsilon, at_most), _remarks(first) if first.unit == "example" else ())


def _one_round(release: Release, count: Release | None) -> tuple[Step, ...]:
    """Give what one participation puts into the model: batches, or an update behind the noise that reaches the mean."""
    if release.unit == "example":
        return _batches(release, count)
    added = math.sqrt(release.cohort) if release.surface == 1 and release.cohort_sampling == "fixed" else 1.0
    extra = grouped(count.multipliers, 1.0) if count is not None else ()
    return merged(grouped([z * added for z in release.multipliers], 1.0), extra)


def _whole_client(release: Release) -> tuple[Step, ...]:
    """Give one participation of a client all of whose records change: every lot may change in all its units."""
    if release.unit == "client":
        return _one_round(release, None)
    return grouped([z / release.capacity for z in release.multipliers], 1.0)


def client_server(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Protect all records of a client against the server."""
    if ledger.sums and ledger.sums[0].unit == "client":
        return server(ledger, delta, adjacency)
    if ledger.counts:
        return Loss(math.inf, (RAW_COUNT,))
    rounds = worst(ledger.sums, ledger.participations)
    return Loss(tight.pld(merged(*map(_whole_client, rounds)), delta, adjacency))


def client_central(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Protect all records of a client against those who see only the models; a Poisson cohort hides a participation."""
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    if first.unit == "client":
        return central(ledger, delta, adjacency)
    if ledger.counts:
        return Loss(math.inf, (RAW_COUNT,))
    secret = first.cohort_sampling == "poisson"
    rounds = [_whole_client(r) for r in ledger.sums]
    epsilon = tight.pld_of_rounds(rounds, 1, first.cohort_rate, delta, adjacency, secret)
    always = replace(ledger, participations=len(ledger.sums))
    return Loss(min(epsilon, client_server(always, delta, adjacency).epsilon))


SEES = {
    "central": "only the models; whether a client took part in a round stays secret (Poisson cohorts)",
    "central-visible": "only the models, from which it can tell who took part",
    "server": "every update with its client's name; who is in a batch stays secret",
    "type2-secret": "every local step's noised gradient as well; who is in a batch stays secret",
    "type2-known": "every local step's noised gradient, and which records are in each batch",
    "client-central": "only the models; all records of a client are protected at once",
    "client-server": "every update; all records of a client are protected at once",
}

THREATS: dict[str, Threat] = {
    "central": central,
    "central-visible": central_visible,
    "server": server,
    "type2-secret": type2_secret,
    "type2-known": type2_known,
    "client-central": client_central,
    "client-server": client_server,
}


def all_steps(ledger: Ledger) -> tuple[Step, ...]:
    """Give every sum of the ledger as the paper counts them: one step a local iteration, at the rate of its batch."""
    return merged(*(grouped(r.sigmas, r.example_rate) for r in chain(ledger.sums)))
