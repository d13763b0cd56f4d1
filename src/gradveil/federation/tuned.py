"""Where a plan's settings were found, and what finding them released of the records that it trains on."""

from dataclasses import dataclass

from gradveil.errors import BadInput, quoted
from gradveil.fields import real, settle, whole

MOST_TRIALS, LONGEST = 100, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """How settings were found: a sentence, and the trials on these very records, if there were any.

    trials: how many, 0 if other data were used; with `hidden` the mean of a secret number, of which nothing is seen
    but the settings of the best. sigma, clients, honest: what each trial released of a record, its score included,
    taken as one sum to which each of so many clients added noise of sigma times the bound, and `honest` of them keep it
    to themselves.
    """

    found: str
    trials: int = 0
    hidden: bool = False
    sigma: float | None = None
    clients: int | None = None
    honest: int | None = None

    def __post_init__(self) -> None:
        settle(self)
        if not self.found.isprintable() or not 0 < len(self.found) <= LONGEST:
            raise BadInput(f"found = {quoted(self.found)}: must be a sentence of at most {LONGEST} characters")
        whole("trials", self.trials, 0, MOST_TRIALS)
        noise = {"sigma": self.sigma, "clients": self.clients, "honest": self.honest}
        lacking = [name for name, value in noise.items() if (value is None) == (self.trials > 0)]
        if lacking:
            rule = "trials on these records need it" if self.trials else "only trials on these records have it"
            raise BadInput(f"{lacking[0]} = {noise[lacking[0]]}: {rule}")
        if self.sigma is not None:
            real("sigma", self.sigma)
            whole("honest", self.honest, most=whole("clients", self.clients))
