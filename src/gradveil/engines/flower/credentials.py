"""Certificates and keys for a federation: a CA and the server's certificate, and one key pair made at each node."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gradveil.aggregation.roster import KeyRoster, checked_name, key_line
from gradveil.errors import BadInput

CA, CA_KEY, SERVER, SERVER_KEY, ROSTER = "ca.crt", "ca.key", "server.crt", "server.key", "roster.json"
_DAYS = 365


def make(folder: Path, hosts: Sequence[str], nodes: Sequence[str]) -> list[Path]:
    """Make everything that a federation needs, the private keys of its nodes too: for one machine and for tests."""
    if len(set(nodes)) < len(nodes):
        raise BadInput("nodes: every name must occur once")
    pairs = {_file_name(name): ec.generate_private_key(ec.SECP384R1()) for name in nodes}
    files = enroll(folder, hosts, {name: key_line(key.public_key()) for name, key in pairs.items()})
    return files + [_write(folder / f"{name}.key", _openssh(key), private=True) for name, key in pairs.items()]


def enroll(folder: Path, hosts: Sequence[str], public: Mapping[str, str]) -> list[Path]:
    """Make what a server needs for nodes that made their own keys: certificates, public halves and the roster.

    hosts: names and addresses under which nodes reach the server. public: the line of each node's public key. Private
    files are readable by their owner alone. Refused if the folder holds credentials already.
    """
    roster = KeyRoster({_file_name(name): line for name, line in public.items()})
    if (folder / CA).exists():
        raise BadInput(f"{str(folder)!r}: already holds credentials; name a new folder")
    for host in hosts:
        _host(host)
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = _authority(authority_key)
    server = _server(server_key, hosts, authority, authority_key)
    return [
        _write(folder / CA_KEY, _pem(authority_key), private=True),
        _write(folder / CA, authority.public_bytes(Encoding.PEM)),
        _write(folder / SERVER_KEY, _pem(server_key), private=True),
        _write(folder / SERVER, server.public_bytes(Encoding.PEM)),
        *(_write(folder / f"{name}.pub", f"{line}\n".encode()) for name, line in roster.keys.items()),
        _write(folder / ROSTER, (json.dumps(roster.plain(), indent=2) + "\n").encode()),
    ]


def make_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """Make the key pair of a node in the form that Flower reads: NIST P-384 in OpenSSH's format; both paths are new."""
    key = ec.generate_private_key(ec.SECP384R1())
    private, public = (folder / f"{_file_name(name)}.{kind}" for kind in ("key", "pub"))
    for path in (private, public):
        if path.exists():
            raise BadInput(f"{str(path)!r}: exists already, and a key is never replaced; choose another name or folder")
    folder.mkdir(parents=True, exist_ok=True)
    line = f"{key_line(key.public_key())}\n".encode()
    return _write(private, _openssh(key), private=True), _write(public, line)


def _file_name(name: str) -> str:
    if checked_name(name) in ("ca", "server"):
        raise BadInput(f"nodes: {name!r} is the name of other files; choose another")
    return name


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


def _openssh(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, private: bool = False) -> Path:
    """Write a new file; a private one is never readable by others, not even for a moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb") as file:
        file.write(content)
    return path
