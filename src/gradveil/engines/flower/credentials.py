"""Certificates and keys for a federation: a CA, the server's certificate, and one key pair a node."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gradveil.errors import BadInput

CA, CA_KEY, SERVER, SERVER_KEY = "ca.crt", "ca.key", "server.crt", "server.key"
_DAYS = 365


def make(folder: Path, hosts: Sequence[str], nodes: Sequence[str]) -> list[Path]:
    """Make everything that a federation of these nodes needs, private files readable by their owner alone.

    hosts: names and addresses under which nodes reach the server. Refused if the folder holds credentials already.
    """
    _check(folder, nodes)
    folder.mkdir(parents=True, exist_ok=True)
    for host in hosts:
        _host(host)
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = _authority(authority_key)
    server = _server(server_key, hosts, authority, authority_key)
    files = [
        _write(folder / CA_KEY, _pem(authority_key), private=True),
        _write(folder / CA, authority.public_bytes(Encoding.PEM)),
        _write(folder / SERVER_KEY, _pem(server_key), private=True),
        _write(folder / SERVER, server.public_bytes(Encoding.PEM)),
    ]
    return files + [file for name in nodes for file in _node(folder, name)]


def _check(folder: Path, nodes: Sequence[str]) -> None:
    if not nodes:
        raise BadInput("nodes: name at least one")
    for name in nodes:
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise BadInput(f"nodes: {name!r} must be made of letters, digits, - and _")
        if name in ("ca", "server"):
            raise BadInput(f"nodes: {name!r} is the name of other files; choose another")
    if len(set(nodes)) < len(nodes):
        raise BadInput("nodes: every name must occur once")
    if (folder / CA).exists():
        raise BadInput(f"{str(folder)!r}: already holds credentials; name a new folder")


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("gradveil federation CA")
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    built = _certificate(name, name, key.public_key())
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return built.add_extension(usage, critical=True).sign(key, hashes.SHA256())


def _server(
    key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    authority: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    built = _certificate(_name(hosts[0]), authority.subject, key.public_key())
    built = built.add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
    built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    built = built.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return built.sign(signer, hashes.SHA256())


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=_DAYS))
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise BadInput(f"hosts: {host!r} must be an address or a name in ASCII") from None


def _node(folder: Path, name: str) -> list[Path]:
    """Write a node's key pair as Flower reads it: NIST P-384 in OpenSSH's format."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return [_write(folder / f"{name}.key", private, private=True), _write(folder / f"{name}.pub", public + b"\n")]


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, private: bool = False) -> Path:
    """Write a new file; a private one is never readable by others, not even for a moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb") as file:
        file.write(content)
    return path
