"""The roster of a federation: which node signs with which key; all hold the same one and compare its fingerprint."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from gradveil.errors import BadInput, quoted

VERSION = 1
Verifier = ec.EllipticCurvePublicKey
Signer = ec.EllipticCurvePrivateKey


def canonical(value: Any) -> bytes:
    """Return plain data as JSON that has one form only: sorted keys, no spaces, ASCII, finite numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def checked_name(name: str) -> str:
    """Return the name of a node if it can also be that of a file; BadInput otherwise."""
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise BadInput(f"nodes: {quoted(name)} must be made of letters, digits, - and _")
    return name


def verifier(line: str) -> Verifier:
    """Return the public key in a line of OpenSSH's format; BadInput unless it is one of NIST P-384."""
    try:
        key = load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadInput(f"key = {quoted(line, 40)}: is no public key in OpenSSH's format") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise BadInput(f"key = {quoted(line, 40)}: must be of type ecdsa-sha2-nistp384")
    return key


def key_line(key: Verifier) -> str:
    """Return a public key as a line of OpenSSH's format, without a comment: the only form that a roster holds."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def key_fingerprint(line: str) -> str:
    """Return the fingerprint of a public key as `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class KeyRoster:
    """The nodes of a federation, each with the line of its public key; no two share a key."""

    keys: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.keys:
            raise BadInput("nodes: name at least one")
        holders: dict[str, str] = {}
        for name, line in self.keys.items():
            checked_name(name)
            if key_line(verifier(line)) != line:
                raise BadInput(f"nodes: the key of {name} must be its type and number alone, without a comment")
            if (other := holders.setdefault(line, name)) != name:
                raise BadInput(f"nodes: {other} and {name} have the same key; each needs its own")

    @staticmethod
    def of(record: Mapping[str, Any]) -> "KeyRoster":
        """Return the roster in the JSON object that `plain` makes."""
        version, nodes = record.get("version"), record.get("nodes")
        if type(version) is not int or version != VERSION or set(record) != {"version", "nodes"}:
            raise BadInput(f"a roster has the keys version = {VERSION} and nodes, and no others")
        if not isinstance(nodes, Mapping) or not all(isinstance(line, str) for line in nodes.values()):
            raise BadInput("nodes: must give each name the line of its public key")
        return KeyRoster(dict(nodes))

    def plain(self) -> dict[str, Any]:
        """Return the roster as plain data."""
        return {"version": VERSION, "nodes": dict(sorted(self.keys.items()))}

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, 64 hex digits; all of them count, since a server could search for a twin."""
        return hashlib.sha256(canonical(self.plain())).hexdigest()

    @property
    def fingerprint(self) -> str:
        """The digest in eight groups, to be read out and compared."""
        return " ".join(self.digest[i : i + 8] for i in range(0, 64, 8))

    def verifier(self, name: str) -> Verifier:
        """Return the key that a node's signatures are checked with."""
        return verifier(self.keys[name])

    def name_of(self, key: Verifier) -> str | None:
        """Return the node that a key belongs to; None if it is in no entry."""
        line = key_line(key)
        return next((name for name, other in self.keys.items() if other == line), None)
