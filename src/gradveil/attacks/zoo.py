"""The attacks by name: each is a value, and differs from the one before in the parts that are named."""

from dataclasses import dataclass, replace

from gradveil import names
from gradveil.attacks.analytic import Analytic
from gradveil.attacks.attack import Attack
from gradveil.attacks.decoder import Decoder
from gradveil.attacks.distance import Cosine, LayerwiseCosine, Likelihood
from gradveil.attacks.exact import Exact
from gradveil.attacks.fishing import Fishing
from gradveil.attacks.imprint import Imprint
from gradveil.attacks.labels import Counts, Depending, Joint, MatchedFilter, RowSums, Sign
from gradveil.attacks.lbfgs import Lbfgs
from gradveil.attacks.learned import Learned
from gradveil.attacks.matching import Matching
from gradveil.attacks.membership import Membership
from gradveil.attacks.optimizers import SignedAdam
from gradveil.attacks.ordered import Ordered
from gradveil.attacks.prior import Gaussian, Levels, Prior, Squashed, TotalVariation
from gradveil.attacks.softening import Softening
from gradveil.attacks.start import ClassMean, Normal, Tiles

DLG = Matching(name="dlg", start=Normal(), labels=Joint())
IDLG = replace(DLG, name="idlg", labels=Depending(Sign(), Counts()))
CPL = replace(IDLG, name="cpl", start=Tiles(2), labels=Depending(RowSums(), Counts()))
GRADINV = replace(
    IDLG,
    name="gradinv",
    distance=Cosine(),
    prior=TotalVariation(1e-4),
    optimizer=SignedAdam(0.1, best=True),
    iterations=4800,
    stop=0.0,
)
GRADINV_LAYERS = replace(GRADINV, name="gradinv-layers", distance=LayerwiseCosine())
GRADINV_LBFGS = replace(GRADINV, name="gradinv-lbfgs", prior=Squashed(1e-6), optimizer=Lbfgs(), iterations=240)
MAP = replace(
    IDLG,
    name="map",
    distance=Likelihood(),
    labels=Ordered(MatchedFilter()),
    prior=Gaussian(),
    optimizer=Lbfgs(least_gain=0.01),
    unrolls=True,
    iterations=20,
    stop=0.0,
)
UNROLLED = replace(
    MAP,
    name="unrolled",
    start=ClassMean(spread=0.05),
    labels=Ordered(MatchedFilter(), sweeps=3, last=True),
    hypotheses=(Ordered(Counts(), sweeps=3, last=True), Ordered(MatchedFilter())),
    softening=Softening(),
    signed=1500,
)
TABLE = replace(MAP, name="table", start=Normal(), prior=Levels(), restarts=3)
ANALYTIC = Analytic()
EXACT = Exact()
LEARNED = Learned()


@dataclass(frozen=True, slots=True)
class NamedAttack:
    """A named attack and what it means, for listings."""

    value: Attack
    meaning: str


ATTACKS: dict[str, NamedAttack] = {
    attack.name: NamedAttack(attack, names.ATTACKS[attack.name])
    for attack in (
        DLG,
        IDLG,
        CPL,
        GRADINV,
        GRADINV_LAYERS,
        GRADINV_LBFGS,
        ANALYTIC,
        EXACT,
        MAP,
        UNROLLED,
        TABLE,
        LEARNED,
    )
}


INFERENCES: dict[str, NamedAttack] = {
    attack.name: NamedAttack(attack, names.INFERENCES[attack.name]) for attack in (Membership(),)
}
"""Attacks that tell something of a record and rebuild none."""
MAP_PRIORS: dict[str, Prior] = {"gaussian": Gaussian(), "decoder": Decoder()}
"""Priors that `map` and `unrolled` can be given by name."""


@dataclass(frozen=True, slots=True)
class NamedTrap:
    """An attack of a server that changes the weights it sends, and what it means."""

    value: Imprint | Fishing
    meaning: str


MALICIOUS: dict[str, NamedTrap] = {
    trap.name: NamedTrap(trap, names.MALICIOUS[trap.name]) for trap in (Imprint(), Fishing())
}
