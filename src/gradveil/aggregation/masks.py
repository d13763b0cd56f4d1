"""Masks between pairs of nodes: one adds what the other subtracts, and both depend on all that the two were told."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from gradveil.aggregation.cards import TAG, Introduction
from gradveil.aggregation.ring import Units
from gradveil.aggregation.roster import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What the server asks of every node of one sum: who takes part, and what is summed.

    serial: grows with every attempt of a run. round: of the plan. size: coordinates of the sum. tolerated: t, nodes
    that may collude. state: digest of the public arrays that the sum depends on. cards: one of each node, by name.
    """

    run: str
    plan: str
    serial: int
    round: int
    size: int
    tolerated: int
    state: str
    cards: tuple[Introduction, ...]

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything: nodes that were told different things have different masks, which do not cancel."""
        fields = [self.run, self.plan, self.serial, self.round, self.size, self.tolerated, self.state]
        cards = [[card.name, card.digest.hex()] for card in self.cards]
        return hashlib.sha256(TAG + b"attempt\0" + canonical([*fields, cards])).digest()


def state_digest(arrays: Sequence[np.ndarray[Any, Any]]) -> str:
    """Return the SHA-256 of arrays: type, shape and little-endian bytes of each, in their order."""
    described = []
    for array in arrays:
        little = np.asarray(array, order="C").astype(array.dtype.newbyteorder("<"))
        described.append([little.dtype.str, list(little.shape), hashlib.sha256(little.tobytes()).hexdigest()])
    return hashlib.sha256(TAG + b"state\0" + canonical(described)).hexdigest()


def pair_key(secret: X25519PrivateKey, mine: Introduction, other: Introduction) -> bytes:
    """Return the 32 bytes that two nodes share, for these two cards only; ValueError for a key of small order."""
    low, high = sorted((mine, other), key=lambda card: card.name)
    shared = secret.exchange(X25519PublicKey.from_public_bytes(other.key))
    return HKDF(hashes.SHA256(), 32, None, TAG + b"pair\0" + low.digest + high.digest).derive(shared)


def mask(pair: bytes, attempt: bytes, size: int) -> Units:
    """Return the mask of a pair in one attempt: the ChaCha20 stream of a key that nothing else uses, uint64 [size]."""
    key = HKDFExpand(hashes.SHA256(), 32, TAG + b"mask\0" + attempt).derive(pair)
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * size))
    return np.frombuffer(stream, "<u8").astype(np.uint64)


def masked(units: Units, name: str, pairs: Mapping[str, bytes], attempt: bytes) -> Units:
    """Return y_i = u_i + sum_{j > i} mask_ij - sum_{j < i} mask_ij modulo 2^64, with the pairs of a node by name."""
    hidden = units.copy()
    for other, pair in pairs.items():
        if name < other:
            hidden += mask(pair, attempt, len(units))
        else:
            hidden -= mask(pair, attempt, len(units))
    return hidden
