"""The adversaries: what each sees of the releases decides how their losses add up.

central          sees only the models of all rounds; whether a client participated stays secret (Poisson cohorts).
central-visible  sees only the models, but can tell from them whether a client participated: other records show it.
aggregate        sees only the sum over the cohort in every round, and the noise of clients that are not honest.
alone            sees what one node of a secure sum adds, under its own noise only: everybody else colludes.
server           honest but curious: sees every update with its client's name; batches are secret.
type2-secret     also sees every local step's noised batch gradient; batches are secret.
type2-known      also knows which records are in each batch, or sees every example's noised gradient.
client-central, client-server   as central and server, for all records of one client at once.

Secret cohort sampling amplifies privacy only where it is proved to: for whole clients whose noise is added at the
server, so that a round without the client is a round in which it contributed nothing.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gradveil.accounting import caveats, tight
from gradveil.accounting.participation import adds_up, batches, one_round, pooled, remarks, whole_client, worst
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.selection import epsilon_of_models
from gradveil.accounting.steps import grouped, merged, repeated


class Loss(NamedTuple):
    """An epsilon with the sentences that belong to it. is_best: it counts trials as repeat-and-select."""

    epsilon: float
    caveats: tuple[str, ...] = ()
    is_best: bool = False


Threat = Callable[[Ledger, float, str], Loss]


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
    if not ledger.sums or not pools(ledger):
        extra_caveats = (caveats.NO_SUMS,) if ledger.sums and math.isfinite(known.epsilon) else ()
        return Loss(known.epsilon, (*known.caveats, *extra_caveats))
    epsilon = epsilon_of_sums(ledger, delta, adjacency, honest=True)
    return known if known.epsilon <= epsilon else Loss(epsilon, (*known.caveats, caveats.summed(ledger.sums[0])))


def alone(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Account what a node sends by its own noise: that of the others is known to those who collude.

    Without a secure sum that is what the server sees of every client.
    """
    return server(ledger, delta, adjacency)


def pools(ledger: Ledger) -> bool:
    """Whether the noise of clients adds up in what every round shows."""
    return not ledger.counts and all(map(adds_up, ledger.sums))


def epsilon_of_sums(ledger: Ledger, delta: float, adjacency: str, honest: bool) -> float:
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
    return central_loss(ledger, delta, adjacency, hidden=False)


def central(ledger: Ledger, delta: float, adjacency: str) -> Loss:
    """Amplify by a secret Poisson cohort for whole clients noised at the server; else account as visible."""
    if not ledger.sums:
        return Loss(0.0)
    first = ledger.sums[0]
    secret = is_drawn_in_secret(first)
    hides = secret and first.unit == "client" and first.surface == 0
    loss = central_loss(ledger, delta, adjacency, hidden=hides)
    return loss._replace(caveats=(*loss.caveats, caveats.NOT_HIDDEN)) if secret and not hides else loss


def is_drawn_in_secret(release: Release) -> bool:
    """Whether a client is in a round's cohort by a coin that nobody sees."""
    return release.cohort_sampling == "poisson" and release.cohort_rate < 1


def central_loss(ledger: Ledger, delta: float, adjacency: str, hidden: bool) -> Loss:
    """Account what the models show; hidden: whether a client participated stays secret."""
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
    known += [epsilon_of_sums(always, delta, adjacency, honest=False)] if pools(ledger) else []
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
    sentences = (caveats.NOT_HIDDEN,) if is_drawn_in_secret(first) else ()
    return Loss(min(epsilon, client_server(always, delta, adjacency).epsilon), sentences)


THREATS: dict[str, Threat] = {
    "central": central,
    "central-visible": central_visible,
    "aggregate": aggregate,
    "alone": alone,
    "server": server,
    "type2-secret": type2_secret,
    "type2-known": type2_known,
    "client-central": client_central,
    "client-server": client_server,
}
