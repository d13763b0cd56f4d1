"""Introductions: cards on which nodes give each other, through the server, a fresh key for one run, signed."""

import hashlib
import os
import re
from dataclasses import dataclass, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from gradveil.aggregation.roster import KeyRoster, Signer, canonical
from gradveil.errors import BadInput, quoted

TAG = b"gradveil/secure-sum/1/"
"""Begins everything that is signed or hashed: the same keys sign other things for Flower."""
_SCHEME = ec.ECDSA(hashes.SHA384())


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """A node's card for one run.

    run: 32 hex digits that the server chose. plan, roster: SHA-256 of the plan and of the node's roster. key: its new
    X25519 public key. nonce: 32 random bytes. signature: ECDSA on P-384 with SHA-384, by the key of the roster.
    """

    name: str
    run: str
    plan: str
    roster: str
    key: bytes
    nonce: bytes
    signature: bytes = b""

    def __post_init__(self) -> None:
        if len(self.key) != 32 or len(self.nonce) != 32:
            raise BadInput(f"introduction of {quoted(self.name)}: key and nonce must have 32 bytes each")
        for field, digits in (("run", 32), ("plan", 64), ("roster", 64)):
            if not re.fullmatch(f"[0-9a-f]{{{digits}}}", getattr(self, field)):
                raise BadInput(f"introduction: {field} = {quoted(getattr(self, field))} must be {digits} hex digits")

    def signed(self) -> bytes:
        """Return the bytes that the signature is over: everything else on the card."""
        fields = [self.name, self.run, self.plan, self.roster, self.key.hex(), self.nonce.hex()]
        return TAG + b"introduction\0" + canonical(fields)

    @property
    def digest(self) -> bytes:
        """SHA-256 of what is signed."""
        return hashlib.sha256(self.signed()).digest()


def introduce(name: str, run: str, plan: str, roster: str, signer: Signer) -> tuple[X25519PrivateKey, Introduction]:
    """Make a new key for a run, and the card that introduces it."""
    secret = X25519PrivateKey.generate()
    card = Introduction(
        name=name,
        run=run,
        plan=plan,
        roster=roster,
        key=secret.public_key().public_bytes_raw(),
        nonce=os.urandom(32),
    )
    return secret, replace(card, signature=signer.sign(card.signed(), _SCHEME))


def is_signed(card: Introduction, roster: KeyRoster) -> bool:
    """Whether a card is signed by the key that the roster has for its name."""
    try:
        roster.verifier(card.name).verify(card.signature, card.signed(), _SCHEME)
    except InvalidSignature:
        return False
    return True
