"""How nodes and server get to know each other's keys: public halves that were sent, and the roster that a node pins."""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from gradveil.aggregation.roster import KeyRoster, Signer, key_line, verifier
from gradveil.errors import BadInput
from gradveil.runs import store

PINNED = "roster.json"
"""The file in a node's state folder that holds the roster it trusts."""


def read_public(paths: list[Path]) -> dict[str, str]:
    """Return the public keys in files called NAME.pub, by name."""
    public_keys: dict[str, str] = {}
    for path in paths:
        if path.suffix != ".pub":
            raise BadInput(f"nodes: {str(path)!r} must end in .pub; a server takes the public halves of keys only")
        if path.stem in public_keys:
            raise BadInput(f"nodes: {path.stem!r} is named twice; every name must occur once")
        text = store.read(path)
        if b"PRIVATE KEY" in text:
            raise BadInput(f"{str(path)!r}: holds a private key, which must not leave its node; send the .pub file")
        public_keys[path.stem] = key_line(_named(path, text))
    return public_keys


def _named(path: Path, text: bytes) -> ec.EllipticCurvePublicKey:
    try:
        return verifier(text.decode("ascii"))
    except (BadInput, UnicodeDecodeError):
        raise BadInput(
            f"{str(path)!r}: must be the public key that `gradveil federate key` made (ecdsa-sha2-nistp384)"
        ) from None


def read_roster(path: Path) -> KeyRoster:
    """Return the roster in a file."""
    try:
        return KeyRoster.of(store.read_json(path))
    except BadInput as error:
        sentence = str(error)
        raise BadInput(sentence if str(path) in sentence else f"{str(path)!r}: {sentence}") from None


def read_signer(path: Path) -> Signer:
    """Return a node's private key."""
    try:
        key = load_ssh_private_key(store.read(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadInput(f"key = {str(path)!r}: is no private key in OpenSSH's format without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise BadInput(f"key = {str(path)!r}: must be of type ecdsa-sha2-nistp384, as `gradveil federate key` makes it")
    return key


def own_name(roster: KeyRoster, key: Path) -> str:
    """Return the name that a roster gives the owner of a private key; BadInput if the key is not in it."""
    name = roster.name_of(read_signer(key).public_key())
    if name is None:
        raise BadInput(f"roster: has no node with the key {str(key)!r}; it must be made with this node's .pub file")
    return name


def pin(state: Path, roster: KeyRoster, replace: bool) -> None:
    """Keep a roster in a node's state folder; another one than was kept before is refused unless it may replace it."""
    before = pinned(state)
    if before is not None and before.digest != roster.digest and not replace:
        raise BadInput(
            f"roster: its fingerprint is {roster.fingerprint}, and this node pinned {before.fingerprint}; "
            "if all nodes agreed on the new one, add --new-roster"
        )
    store.write_json(state / PINNED, roster.plain(), owner_only=True)


def pinned(state: Path) -> KeyRoster | None:
    """Return the roster that a node pinned; None if it has none."""
    path = state / PINNED
    return read_roster(path) if store.exists(path) else None
