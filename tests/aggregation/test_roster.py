"""A roster names each node's key once, in one form, and its fingerprint changes with every entry."""

import json
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gradveil.aggregation.roster import KeyRoster, canonical, key_fingerprint, key_line
from gradveil.errors import BadInput


def openssh(key):
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@pytest.fixture(scope="module")
def keys():
    return [ec.generate_private_key(ec.SECP384R1()) for _ in range(3)]


@pytest.fixture(scope="module")
def roster(keys):
    return KeyRoster({f"site-{i}": openssh(key) for i, key in enumerate(keys)})


def test_a_roster_survives_json_in_any_order_with_the_same_fingerprint(roster):
    stored = json.loads(json.dumps(roster.plain()))
    stored["nodes"] = dict(reversed(stored["nodes"].items()))
    again = KeyRoster.of(stored)
    assert again.keys == roster.keys
    assert again.fingerprint == roster.fingerprint
    assert roster.fingerprint.replace(" ", "") == roster.digest
    assert len(roster.digest) == 64


def test_another_name_or_key_or_one_node_less_is_another_fingerprint(roster, keys):
    stranger = openssh(ec.generate_private_key(ec.SECP384R1()))
    others = [
        {**roster.keys, "site-0": stranger},
        {**roster.keys, "site-3": stranger},
        {name: line for name, line in roster.keys.items() if name != "site-2"},
        {"site-0": roster.keys["site-1"], "site-1": roster.keys["site-0"], "site-2": roster.keys["site-2"]},
        {name.replace("2", "9"): line for name, line in roster.keys.items()},
    ]
    assert len({KeyRoster(other).digest for other in others} | {roster.digest}) == len(others) + 1


def test_a_node_finds_its_name_by_its_key_and_a_stranger_finds_none(roster, keys):
    assert [roster.name_of(key.public_key()) for key in keys] == ["site-0", "site-1", "site-2"]
    assert roster.name_of(ec.generate_private_key(ec.SECP384R1()).public_key()) is None
    assert key_line(roster.verifier("site-1")) == openssh(keys[1])


P256 = openssh(ec.generate_private_key(ec.SECP256R1()))
ED25519 = openssh(ed25519.Ed25519PrivateKey.generate())


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({}, "at least one"),
        ({"../site": "KEY"}, "letters, digits"),
        ({"site": "KEY of mine"}, "without a comment"),
        ({"a": "KEY", "b": "KEY"}, "the same key"),
        ({"a": P256}, "ecdsa-sha2-nistp384"),
        ({"a": ED25519}, "ecdsa-sha2-nistp384"),
        ({"a": "ecdsa-sha2-nistp384 AAAA"}, "OpenSSH"),
        ({"a": "é"}, "OpenSSH"),
        ({"a": 7}, "the line of its public key"),
        (["a"], "the line of its public key"),
    ],
)
def test_what_is_no_roster_is_refused_in_a_sentence(keys, nodes, said):
    if isinstance(nodes, dict):
        nodes = {
            name: line.replace("KEY", openssh(keys[0])) if isinstance(line, str) else line
            for name, line in nodes.items()
        }
    with pytest.raises(BadInput, match=said) as refused:
        KeyRoster.of({"version": 1, "nodes": nodes})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("record", [{}, {"version": 2, "nodes": {}}, {"version": True, "nodes": {}}])
def test_another_version_is_refused(record):
    with pytest.raises(BadInput, match="version = 1"):
        KeyRoster.of(record)


def test_a_key_in_the_middle_of_a_roster_that_nobody_knows_is_refused(roster):
    with pytest.raises(BadInput, match="no others"):
        KeyRoster.of({**roster.plain(), "operator": "me"})


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_the_fingerprint_of_a_key_is_the_one_that_ssh_keygen_prints(keys, tmp_path):
    (tmp_path / "a.pub").write_text(openssh(keys[0]) + "\n")
    said = subprocess.run(["ssh-keygen", "-lf", tmp_path / "a.pub"], capture_output=True, text=True, check=True).stdout
    assert key_fingerprint(openssh(keys[0])) == said.split()[1]


def test_canonical_json_has_one_form_and_no_number_that_is_none():
    assert canonical({"b": [1, "é"], "a": None}) == b'{"a":null,"b":[1,"\\u00e9"]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))
