"""From releases to guarantees: what each adversary sees decides how losses add up.

central          sees only the models of all rounds; whether a client participated stays secret (Poisson cohorts).
central-visible  sees only the models, but can tell from them whether a client participated: other records show it.
aggregate        sees only the sum over the cohort in every round, and the noise of clients that are not honest.
server           honest but curious: sees every update with its client's name; batches are secret.
type2-secret     also sees every local step's noised batch gradient; batches are secret.
type2-known      also knows which records are in each batch, or sees every example's noised gradient.
client-central, client-server   as central and server, for all records of one client at once.

Secret cohort sampling amplifies privacy only where it is proved to: for whole clients whose noise is added at the
server, so that a round without the client is a round in which it contributed nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from gradveil.accounting import caveats, coupling, guarantee, participation, tight
from gradveil.accounting.guarantee import Guarantee
from gradveil.accounting.participation import adds_up, batches, beyond, one_round, pooled, remarks, whole_client, worst
from gradveil.accounting.release import Release
from gradveil.accounting.selection import RARE, about_tuning, epsilon_of_models
from gradveil.accounting.steps import grouped, merged, repeated

OVERFLOW = 1e-15
"""Probability that one batch of random size is truncated to its capacity."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a run released so far, the most participations of any client, and where its noise came from.

    caveats: sentences that come first in every guarantee of the run. best_of: the mean number of trials, where their
    number is secret and only the settings of the best are seen; `releases` has as many trials as there may be.
    """

    releases: tuple[Release, ...]
    participations: int
    noise_source: str = "secret"
    caveats: tuple[str, ...] = ()
    best_of: float | None = None

    @property
    def sums(self) -> tuple[Release, ...]:
        """The noised sums, one a round."""
        return tuple(r for r in self.releases if r.part == "sum")

    @property
    def counts(self) -> tuple[Release, ...]:
        """The noised counts of an adaptive clip."""
        return tuple(r for r in self.releases if r.part == "count")


class Loss(NamedTuple):
    """An epsilon with the sentences that belong to it. is_best: it counts trials as repeat-and-select."""

    epsilon: float
    caveats: tuple[str, ...] = ()
    is_best: bool = False


Threat = Callable[[Ledger, float, str], Loss]


def guarantees(ledger: Ledger, delta: float, adjacency: str, threats: Sequence[str] = ()) -> list[Guarantee]:
    """Account a ledger against every adversary, or those named."""
    return [account(ledger, delta, adjacency, name) for name in threats or THREATS]


@lru_cache(maxsize=256)
def account(ledger: Ledger, delta: float, adjacency: str, threat: str) -> Guarantee:
    """Account a ledger against one adversary."""
    loss = _always_infinite(ledger) or _with_rare_events(ledger, delta, adjacency, threat)
    first = ledger.sums[0] if ledger.sums else None
    by_client = threat.startswith("client") or (first is not None and first.unit == "client")
    seeded = (guarantee.SEEDED,) if ledger.noise_source == "seeded" else ()
    copied = (caveats.COPIES,) if first is not None and first.copies > 1 and not by_client else ()
    trusted = (caveats.trusted(first.trusted),) if first is not None and first.trusted else ()
    always = (guarantee.PARAMETERS_ONLY, about_tuning(ledger.sums, ledger.best_of, loss.is_best))
    own = (caveats.OWN_NOISE,) if first is not None and by_client and first.surface > 0 else ()
    return Guarantee(
        epsilon=loss.epsilon,
        delta=delta,
        unit="client" if by_client else "example",
        threat_model=threat,
        adjacency=adjacency,
        sampling=_sampling(first),
        accountant="rdp" if loss.is_best else "pld",
        noise_source=ledger.noise_source,
        caveats=(*ledger.caveats, *loss.caveats, *trusted, *copied, *own, *seeded, *always),
    )


def presumed(ledger: Ledger, delta: float, adjacency: str) -> list[dict[str, object]]:
    """Return epsilon if secret cohorts hid single examples: an assumption, as JSON, and never a guarantee."""
    if not is_presumption(ledger, "central") or _always_infinite(ledger):
        return []
    epsilon = _central(ledger, delta, adjacency, hidden=True).epsilon
    context = {"threat_model": "central", "unit": "example", "delta": delta, "adjacency": adjacency}
    return [context | {"epsilon": epsilon if math.isfinite(epsilon) else None, "label": caveats.PRESUMED}]


def is_presumption(ledger: Ledger, threat: str) -> bool:
    """Whether amplification is assumed, not proved: a secret cohort does not hide a single example."""
    first = ledger.sums[0] if ledger.sums else None
    return threat == "central" and first is not None and first.unit == "example" and _is_drawn_in_secret(first)


def _sampling(release: Release | None) -> str:
    if release is None:
        return "nothing was released"
    examples = f"{release.example_sampling} batches at rate {release.example_rate:g}"
    return f"{examples}, {release.cohort_sampling} cohorts at rate {release.cohort_rate:g}"


def _always_infinite(ledger: Ledger) -> Loss | None:
    """Return an infinite loss where none is finite against any adversary: noise follows the data, or is missing."""
    if any(r.data_dependent for r in ledger.sums):
        unsound = any(r.unsound_clip for r in ledger.sums)
        return Loss(math.inf, (caveats.UNSOUND_CLIP if unsound else caveats.DATA_DEPENDENT,))
    if any(z <= 0 for r in ledger.sums for z in r.noise_multipliers):
        return Loss(math.inf, (caveats.NO_NOISE,))
    return None


def _with_rare_events(ledger: Ledger, delta: float, adjacency: str, threat: str) -> Loss:
    """Account with the delta that remains after two rare events: truncated batches of random size and cut-off noise.

    Whether the other records of a batch fill it does not depend on the record in question. So with probability
    1 - eta, the same for both neighbors, nothing is truncated, and by convexity delta(epsilon) grows by eta at most.
    Noise in floating point has a cut-off; outcomes beyond it that only one neighbor can have are charged in full, or in
    sums over clients the chance that any draw meets it (`coupling`), if that leaves the smaller epsilon.
    """
    eta = OVERFLOW * math.fsum(len(r.sigmas) * r.copies for r in ledger.sums if participation.is_sampled(r))
    eta += RARE if ledger.best_of is not None else 0.0
    reach, whole = (2.0 if adjacency == tight.REPLACE_ONE else 1.0), threat.startswith("client")
    cut_off = math.fsum((1 if whole else r.copies) * beyond(r, reach, whole) for r in ledger.sums)
    loss = Loss(math.inf, (caveats.CUT if delta <= eta else caveats.NOISE_ENDS,))
    if delta - eta - cut_off > 0:
        loss = THREATS[threat](ledger, delta - eta - cut_off, adjacency)
    if threat != "aggregate" or cut_off <= coupling.SMALL * delta or not _pools(ledger):
        return loss
    summed = coupling.coupled(lambda d: _epsilon_of_sums(ledger, d, adjacency, honest=True), delta - eta, ledger.sums)
    return Loss(summed, (caveats.summed(ledger.sums[0]),)) if summed < loss.epsilon else loss


def server(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Compose the worst client's participations; a record with c copies participates c times as often."""
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    if ledger.counts or first.surface == 0:
        return Loss(math.inf, (caveats.RAW_COUNT if ledger.counts else caveats.RAW_AT_SERVER,))
    rounds = worst(ledger.sums, ledger.participations)
    if first.unit == "client":
        return Loss(tight.pld(merged(*(grouped(r.noise_multipliers, 1.0) for r in rounds)), delta, adjacency))
    steps = repeated(merged(*map(batches, rounds)), first.copies)
    return Loss(tight.pld(steps, delta, adjacency), remarks(first))


def aggregate(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Compose the sums over cohorts, under the noise of their honest clients; never more than the server learns.

    The sums are computed from what the server would see, so its epsilon holds here too.
    """
    known = server(ledger, delta, adjacency)
    if not ledger.sums or not _pools(ledger):
        said = (caveats.NO_SUMS,) if ledger.sums and math.isfinite(known.epsilon) else ()
        return Loss(known.epsilon, (*known.caveats, *said))
    epsilon = _epsilon_of_sums(ledger, delta, adjacency, honest=True)
    return known if known.epsilon <= epsilon else Loss(epsilon, (*known.caveats, caveats.summed(ledger.sums[0])))


def _pools(ledger: Ledger) -> bool:
    """Whether the noise of clients adds up in what every round shows."""
    return not ledger.counts and all(map(adds_up, ledger.sums))


def _epsilon_of_sums(ledger: Ledger, delta: float, adjacency: str, honest: bool) -> float:
    """Compose the sums of the costliest rounds; every copy of a record may be in the same ones."""
    rounds = worst(ledger.sums, ledger.participations)
    return tight.pld(merged(*(pooled(r, r.pool if honest else r.cohort) for r in rounds)), delta, adjacency)


def type2_secret(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Account as for the server, whose bound already covers every iterate; noised examples reveal the batch."""
    if ledger.sums and ledger.sums[0].unit == "client":
        return Loss(math.inf, (caveats.RAW_IN_CLIENT,))
    if ledger.sums and ledger.sums[0].draw == "each":
        return type2_known(ledger, delta, adjacency)
    loss = server(ledger, delta, adjacency)
    return Loss(loss.epsilon, (*loss.caveats, caveats.IN_MEMORY))


def type2_known(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Compose without amplification: in a batch that is known to hold the record, sampling hides nothing."""
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    if first.unit == "client":
        return Loss(math.inf, (caveats.RAW_IN_CLIENT,))
    if ledger.counts:
        return Loss(math.inf, (caveats.RAW_COUNT,))
    alone = math.sqrt(first.expected) if first.draw == "each" else 1.0
    steps = repeated(merged(*map(batches, worst(ledger.sums, ledger.participations))), first.copies)
    seen = tuple(step._replace(z=step.z / alone) for step in steps)
    sentences = remarks(first) if first.draw == "each" else (*remarks(first), caveats.IN_MEMORY)
    return Loss(tight.pld_with_visible_draws(seen, delta, adjacency), sentences)


def central_visible(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Compose rounds that happen to a record with the cohort's rate, each of which shows whether it happened."""
    return _central(ledger, delta, adjacency, hidden=False)


def central(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Amplify by a secret Poisson cohort for whole clients noised at the server; else account as visible."""
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    secret = _is_drawn_in_secret(first)
    hides = secret and first.unit == "client" and first.surface == 0
    loss = _central(ledger, delta, adjacency, hidden=hides)
    return loss._replace(caveats=(*loss.caveats, caveats.NOT_HIDDEN)) if secret and not hides else loss


def _is_drawn_in_secret(release: Release) -> bool:
    return release.cohort_sampling == "poisson" and release.cohort_rate < 1


def _central(ledger: Ledger, delta: float, adjacency: str, hidden: bool) -> Loss:
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    counts_by_round = {r.round: r for r in ledger.counts}
    rounds = [one_round(r, counts_by_round.get(r.round)) for r in ledger.sums]
    copies = first.copies if first.unit == "example" else 1
    epsilon = tight.pld_of_rounds(rounds, copies, first.cohort_rate, delta, adjacency, hidden)
    # The models show no more than a server sees if the client participates in every round.
    always = replace(ledger, participations=len(ledger.sums))
    known = [epsilon, server(always, delta, adjacency).epsilon]
    known += [_epsilon_of_sums(always, delta, adjacency, honest=False)] if _pools(ledger) else []
    reach = 2.0 if adjacency == tight.REPLACE_ONE else 1.0
    best = epsilon_of_models(ledger.sums, ledger.best_of, delta, reach)
    return Loss(min(*known, best), remarks(first) if first.unit == "example" else (), best < min(known))


def client_server(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Protect all records of a client against the server."""
    if ledger.sums and ledger.sums[0].unit == "client":
        return server(ledger, delta, adjacency)
    if infinite := _no_client_level(ledger):
        return infinite
    rounds = worst(ledger.sums, ledger.participations)
    return Loss(tight.pld(merged(*map(whole_client, rounds)), delta, adjacency))


def _no_client_level(ledger: Ledger) -> Loss | None:
    """Return an infinite loss where noise on examples protects no client: raw counts, or batches of unknown size."""
    if ledger.counts:
        return Loss(math.inf, (caveats.RAW_COUNT,))
    if any(r.capacity < 1 or r.client_size < 1 for r in ledger.sums):
        return Loss(math.inf, (caveats.UNKNOWN_BATCH,))
    return None


def client_central(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Protect all records of a client against those who see only the models.

    Where clients draw the noise, its absence would reveal who is missing, so cohort sampling amplifies nothing.
    """
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    if first.unit == "client":
        return central(ledger, delta, adjacency)
    if infinite := _no_client_level(ledger):
        return infinite
    rounds = [whole_client(r) for r in ledger.sums]
    epsilon = tight.pld_of_rounds(rounds, 1, first.cohort_rate, delta, adjacency, secret=False)
    always = replace(ledger, participations=len(ledger.sums))
    sentences = (caveats.NOT_HIDDEN,) if _is_drawn_in_secret(first) else ()
    return Loss(min(epsilon, client_server(always, delta, adjacency).epsilon), sentences)


THREATS: dict[str, Threat] = {
    "central": central,
    "central-visible": central_visible,
    "aggregate": aggregate,
    "server": server,
    "type2-secret": type2_secret,
    "type2-known": type2_known,
    "client-central": client_central,
    "client-server": client_server,
}
