"""The attacks by name: each is a value, and differs from the one before in the parts that are named."""

from dataclasses import dataclass, replace

from gradveil import names
from gradveil.attacks.analytic import Analytic
from gradveil.attacks.attack import Attack
from gradveil.attacks.distance import Cosine, Likelihood
from gradveil.attacks.labels import Counts, Depending, Joint, MatchedFilter, RowSums, Sign
from gradveil.attacks.lbfgs import Lbfgs
from gradveil.attacks.learned import Learned
from gradveil.attacks.matching import Matching
from gradveil.attacks.optimizers import SignedAdam
from gradveil.attacks.ordered import Ordered
from gradveil.attacks.prior import Gaussian, Levels, TotalVariation
from gradveil.attacks.start import ClassMean, Normal, Tiles

DLG = Matching(name="dlg", start=Normal(), labels=Joint())
IDLG = replace(DLG, name="idlg", labels=Depending(Sign(), Counts()))
CPL = replace(IDLG, name="cpl", start=Tiles(2), labels=Depending(RowSums(), Counts()))
GRADINV = replace(
    IDLG,
    name="gradinv",
    distance=Cosine(),
    prior=TotalVariation(1e-4),
    optimizer=SignedAdam(0.1),
    iterations=4800,
    stop=0.0,
)
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
UNROLLED = replace(MAP, name="unrolled", start=ClassMean(spread=0.05))
TABLE = replace(MAP, name="table", start=Normal(), prior=Levels(), restarts=3)
ANALYTIC = Analytic()
LEARNED = Learned()


@dataclass(frozen=True, slots=True)
class NamedAttack:
    """A named attack and what it means, for listings."""

    value: Attack
    meaning: str


ATTACKS: dict[str, NamedAttack] = {
    attack.name: NamedAttack(attack, names.ATTACKS[attack.name])
    for attack in (DLG, IDLG, CPL, GRADINV, ANALYTIC, MAP, UNROLLED, TABLE, LEARNED)
}
