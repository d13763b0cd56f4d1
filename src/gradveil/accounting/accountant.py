"""From a ledger to guarantees: rules that hold against every adversary, then what each of `threats` learns."""

import math
from collections.abc import Sequence
from functools import lru_cache

from gradveil.accounting import caveats, coupling, discrete, guarantee, tight
from gradveil.accounting.guarantee import Guarantee
from gradveil.accounting.participation import OVERFLOW, beyond, is_sampled
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.selection import RARE, about_tuning
from gradveil.accounting.threats import THREATS, Loss, central_loss, epsilon_of_sums, is_drawn_in_secret, pools


def guarantees(ledger: Ledger, delta: float, adjacency: str, threats: Sequence[str] = ()) -> list[Guarantee]:
    """Account a ledger against every adversary, or those named; `alone` is one only where nodes make a secure sum."""
    known = [name for name in THREATS if name != "alone" or any(r.masked for r in ledger.sums)]
    return [account(ledger, delta, adjacency, name) for name in threats or known]


@lru_cache(maxsize=256)
def account(ledger: Ledger, delta: float, adjacency: str, threat: str) -> Guarantee:
    """Account a ledger against one adversary, for the worst of its clients."""
    return max((_of_client(one, delta, adjacency, threat) for one in (ledger, *ledger.others)), key=_epsilon)


def _epsilon(candidate: Guarantee) -> float:
    return candidate.epsilon


def _of_client(ledger: Ledger, delta: float, adjacency: str, threat: str) -> Guarantee:
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
    epsilon = max(central_loss(one, delta, adjacency, hidden=True).epsilon for one in (ledger, *ledger.others))
    context = {"threat_model": "central", "unit": "example", "delta": delta, "adjacency": adjacency}
    return [context | {"epsilon": epsilon if math.isfinite(epsilon) else None, "label": caveats.PRESUMED}]


def is_presumption(ledger: Ledger, threat: str) -> bool:
    """Whether amplification is assumed, not proved: a secret cohort does not hide a single example."""
    first = ledger.sums[0] if ledger.sums else None
    return threat == "central" and first is not None and first.unit == "example" and is_drawn_in_secret(first)


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
    The same eta pays for passes in which a whole client's random places move sums farther than is accounted.
    Noise in floating point has a cut-off; outcomes beyond it that only one neighbor can have are charged in full, or in
    sums over clients the chance that any draw meets it (`coupling`), if that leaves the smaller epsilon.
    """
    eta = OVERFLOW * math.fsum(len(r.sigmas) * r.copies for r in ledger.sums if is_sampled(r))
    eta += RARE if ledger.best_of is not None else 0.0
    reach, whole = (2.0 if adjacency == tight.REPLACE_ONE else 1.0), threat.startswith("client")
    floating = (r for r in ledger.sums if not r.masked)
    cut_off = math.fsum((1 if whole else r.copies) * beyond(r, reach, whole) for r in floating)
    loss = Loss(math.inf, (caveats.CUT if delta <= eta else caveats.NOISE_ENDS,))
    if delta - eta - cut_off > 0:
        loss = _as_drawn(ledger, delta - eta - cut_off, adjacency, threat)
    if threat != "aggregate" or cut_off <= coupling.SMALL * delta or not pools(ledger):
        return loss
    summed = coupling.coupled(lambda d: epsilon_of_sums(ledger, d, adjacency, honest=True), delta - eta, ledger.sums)
    return Loss(summed, (caveats.summed(ledger.sums[0]),)) if summed < loss.epsilon else loss


def _as_drawn(ledger: Ledger, delta: float, adjacency: str, threat: str) -> Loss:
    """Account against an adversary, with the errors of discrete noise where a secure sum draws that."""

    def loss_at(left: float) -> Loss:
        return THREATS[threat](ledger, left, adjacency)

    masked = any(r.masked for r in ledger.sums)
    return discrete.charged(loss_at, delta, ledger.sums) if masked else loss_at(delta)
