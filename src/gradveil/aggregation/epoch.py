"""What a node remembers of an open run, in memory only, and what it checks before it answers an attempt.

After a restart the key of the epoch is gone, so that no mask can be made a second time.
"""

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from gradveil.aggregation.cards import Introduction, introduce, is_signed
from gradveil.aggregation.masks import Attempt, pair_key
from gradveil.aggregation.roster import KeyRoster, Signer
from gradveil.errors import BadInput

MOST_OPEN = 4
"""Runs that are open at a time; the oldest is forgotten when another begins."""
LEAST_HONEST = 2


class Refused(Exception):
    """A node does not answer; the message is one sentence, made of public facts only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How many nodes a sum must hide its data among, by the rules of one node.

    tolerated: the least t that a plan must tolerate, at least 1, since every node knows its own share of the noise.
    minimum_nodes: the fewest nodes of a sum.
    """

    tolerated: int = 1
    minimum_nodes: int = 3

    def __post_init__(self) -> None:
        if self.tolerated < 1:
            raise BadInput(f"tolerated = {self.tolerated}: must be at least 1")
        if self.minimum_nodes < self.tolerated + LEAST_HONEST:
            raise BadInput(
                f"minimum_nodes = {self.minimum_nodes}: must be at least {self.tolerated + LEAST_HONEST}, "
                f"the {self.tolerated} tolerated and {LEAST_HONEST} more"
            )


@dataclass(slots=True)
class Epoch:
    """One run as long as this process lives: its key, the card that introduced it, and the last serial."""

    secret: X25519PrivateKey
    card: Introduction
    last: int = -1
    pairs: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Epochs:
    """The open runs of a node. Attempts must be admitted one at a time."""

    roster: KeyRoster
    signer: Signer
    crowd: Crowd
    _open: dict[str, Epoch] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that the roster gives this node."""
        name = self.roster.name_of(self.signer.public_key())
        if name is None:
            raise BadInput("roster: has no node with this node's key")
        return name

    def introduce(self, run: str, plan: str) -> Introduction:
        """Open a run anew, with a new key: what was open under its number is forgotten."""
        secret, card = introduce(self.name, run, plan, self.roster.digest, self.signer)
        self._open.pop(run, None)
        self._open[run] = Epoch(secret, card)
        while len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]
        return card

    def admit(self, attempt: Attempt) -> dict[str, bytes]:
        """Check an attempt and use up its serial; return what this node shares with each other node of it, by name.

        Refused if anything is wrong, and then the serial is not used up.
        """
        epoch = self._open.get(attempt.run)
        if epoch is None:
            raise Refused("run: no such run is open here; introduce it again")
        for check in (self._names, self._cards, self._numbers):
            check(attempt, epoch)
        pairs = {card.name: self._pair(epoch, card) for card in attempt.cards if card != epoch.card}
        epoch.last = attempt.serial  # before anything is computed, so that this label cannot serve a second time
        return pairs

    def _names(self, attempt: Attempt, epoch: Epoch) -> None:
        names = [card.name for card in attempt.cards]
        if epoch.card not in attempt.cards:
            raise Refused("cards: this node's current one is missing; introduce the run again")
        if names != sorted(set(names)):
            raise Refused("cards: must be sorted by name, each name once")
        for name in names:
            if name not in self.roster.keys:
                raise Refused(f"cards: {name} is not in the roster of this node")

    def _cards(self, attempt: Attempt, epoch: Epoch) -> None:
        mine = epoch.card
        if attempt.plan != mine.plan:
            raise Refused("plan: is not the one that this run was introduced with")
        for card in attempt.cards:
            if (card.run, card.plan, card.roster) != (mine.run, mine.plan, mine.roster):
                raise Refused(f"cards: that of {card.name} is for another run, plan or roster")
            if card != mine and card.digest not in epoch.pairs and not is_signed(card, self.roster):
                raise Refused(f"cards: that of {card.name} is not signed by its key")

    def _numbers(self, attempt: Attempt, epoch: Epoch) -> None:
        nodes = len(attempt.cards)
        if nodes < self.crowd.minimum_nodes:
            raise Refused(f"nodes = {nodes}: this node requires at least {self.crowd.minimum_nodes} in a sum")
        if nodes - attempt.tolerated < LEAST_HONEST:
            raise Refused(f"nodes = {nodes}: with {attempt.tolerated} tolerated, {LEAST_HONEST} more are needed")
        if attempt.tolerated < self.crowd.tolerated:
            raise Refused(f"tolerated = {attempt.tolerated}: this node requires at least {self.crowd.tolerated}")
        if attempt.serial <= epoch.last:
            raise Refused(f"serial = {attempt.serial}: must be above {epoch.last}, which was asked before")

    def _pair(self, epoch: Epoch, card: Introduction) -> bytes:
        if card.digest not in epoch.pairs:
            try:
                epoch.pairs[card.digest] = pair_key(epoch.secret, epoch.card, card)
            except ValueError:
                raise Refused(f"cards: that of {card.name} has a key of small order") from None
        return epoch.pairs[card.digest]
