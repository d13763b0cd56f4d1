"""Keys are made where they are used: `federate key` on a node, `federate keys` from public halves, a pinned roster."""

import json
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gradveil.aggregation.roster import key_line
from gradveil.cli.main import main
from gradveil.deployment import enrollment

NAMES = ("north", "east", "west")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def enrolled(here, capsys):
    """Three nodes that made their keys in folders of their own, and a server that was sent the public halves."""
    for name in NAMES:
        assert main(["federate", "key", name, "--folder", name]) == 0
    assert main(["federate", "keys", "keys", "--nodes", ",".join(f"{name}/{name}.pub" for name in NAMES)]) == 0
    capsys.readouterr()
    return here


def node(*options, key="north/north.key"):
    return main(["federate", "node", "--data", "digits", "--shard", "0/3", "--server", "localhost:1", "--show",
                 "--key", key, "--ca", "keys/ca.crt", "--policy", "policy.toml", *options])  # fmt: skip


def test_a_node_makes_its_key_for_itself_and_prints_the_fingerprint(here, capsys):
    assert main(["federate", "key", "site-0", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert stat.S_IMODE((here / "site-0.key").stat().st_mode) == 0o600
    assert said["fingerprint"].startswith("SHA256:")
    signer = enrollment.read_signer(here / "site-0.key")
    assert enrollment.read_public([here / "site-0.pub"])["site-0"] == key_line(signer.public_key())


def test_a_key_is_never_replaced(here, capsys):
    assert main(["federate", "key", "site-0"]) == 0
    before = (here / "site-0.key").read_bytes()
    assert main(["federate", "key", "site-0"]) == 2
    assert "a key is never replaced" in capsys.readouterr().err
    assert (here / "site-0.key").read_bytes() == before
    (here / "site-0.key").unlink()  # the public half alone, which the server may know already, is not replaced either
    assert main(["federate", "key", "site-0"]) == 2
    assert not (here / "site-0.key").exists()


def test_the_server_holds_public_halves_and_no_private_key_of_a_node(enrolled):
    private = [path.name for path in (enrolled / "keys").iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    assert sorted(private) == ["ca.key", "server.key"]
    for name in NAMES:
        assert (enrolled / "keys" / f"{name}.pub").read_text() == (enrolled / name / f"{name}.pub").read_text()


def test_everybody_finds_the_same_fingerprint_from_the_public_halves(enrolled, capsys):
    halves = ",".join(f"{name}/{name}.pub" for name in reversed(NAMES))
    assert main(["federate", "roster", "mine.json", "--nodes", halves, "--json"]) == 0
    mine = json.loads(capsys.readouterr().out)
    assert main(["federate", "roster", "keys/roster.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == mine
    assert sorted(mine["nodes"]) == sorted(NAMES)
    assert main(["federate", "roster", "mine.json", "--nodes", halves]) == 2
    assert "exists already" in capsys.readouterr().err


def test_names_alone_still_make_all_keys_and_say_what_that_means(here, capsys):
    assert main(["federate", "keys", "keys", "--nodes", "a,b"]) == 0
    assert "whoever reads this folder can sign as any node" in capsys.readouterr().out
    assert (here / "keys" / "a.key").exists()
    assert main(["federate", "keys", "more", "--nodes", "a,a"]) == 2
    assert "every name must occur once" in capsys.readouterr().err
    assert main(["federate", "keys", "more", "--nodes", " ,"]) == 2
    assert "nodes: at least one name is needed" in capsys.readouterr().err
    assert not (here / "more").exists()


def private_as_public(here):
    (here / "north.pub").write_bytes((here / "north" / "north.key").read_bytes())
    return "north.pub"


def other_type(here):
    key = Ed25519PrivateKey.generate().public_key()
    (here / "soft.pub").write_bytes(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return "soft.pub"


def twice(here):
    return "north/north.pub,north/north.pub"


def same_key(here):
    (here / "other.pub").write_bytes((here / "north" / "north.pub").read_bytes())
    return "north/north.pub,other.pub"


def empty(here):
    (here / "empty.pub").write_bytes(b"\xff\x00")
    return "empty.pub"


BAD = {
    private_as_public: "holds a private key",
    other_type: "ecdsa-sha2-nistp384",
    twice: "'north' is named twice",
    same_key: "have the same key",
    empty: "must be the public key",
    (lambda here: "north/north.pub,east"): "'east' must end in .pub",
    (lambda here: "nowhere.pub"): "nowhere.pub",
}


@pytest.mark.parametrize("make", BAD, ids=BAD.values())
def test_what_is_no_public_half_is_refused_in_one_sentence_and_leaves_nothing(enrolled, capsys, make):
    nodes = make(enrolled)
    assert main(["federate", "keys", "new", "--nodes", nodes]) == 2
    said = capsys.readouterr().err
    assert BAD[make] in said
    assert said.count("\n") == 1
    assert not (enrolled / "new").exists()


@pytest.fixture
def ready(enrolled, capsys):
    assert main(["federate", "policy", "--out", "policy.toml"]) == 0
    capsys.readouterr()
    return enrolled


def test_a_node_pins_its_roster_shows_its_fingerprint_and_refuses_another_later(ready, capsys):
    assert node("--roster", "keys/roster.json") == 0
    fingerprint = enrollment.read_roster(ready / "keys" / "roster.json").fingerprint
    assert fingerprint in capsys.readouterr().err
    assert stat.S_IMODE((ready / "node-state" / "roster.json").stat().st_mode) == 0o600
    assert node() == 0
    assert fingerprint in capsys.readouterr().err
    assert main(["federate", "roster", "two.json", "--nodes", "north/north.pub,east/east.pub"]) == 0
    assert node("--roster", "two.json") == 2
    said = capsys.readouterr().err
    assert fingerprint in said
    assert "--new-roster" in said
    assert enrollment.pinned(ready / "node-state").fingerprint == fingerprint
    assert node("--roster", "two.json", "--new-roster") == 0
    assert enrollment.pinned(ready / "node-state").fingerprint != fingerprint


def test_a_node_does_not_start_with_a_roster_that_lacks_its_key(ready, capsys):
    assert main(["federate", "roster", "others.json", "--nodes", "west/west.pub,east/east.pub"]) == 0
    assert node("--roster", "others.json") == 2
    assert "has no node with the key" in capsys.readouterr().err
    assert not (ready / "node-state" / "roster.json").exists()
    assert node("--new-roster") == 2
    assert "--roster" in capsys.readouterr().err
    assert node("--roster", "keys/roster.json", key="keys/ca.key") == 2
    assert "private key in OpenSSH's format" in capsys.readouterr().err


def test_a_damaged_roster_is_refused_with_its_name(ready, capsys):
    (ready / "bad.json").write_text('{"version": 1, "nodes": {"a": "ssh-rsa nothing"}}')
    for options in (["node", "bad.json"], ["roster", "bad.json"]):
        assert (node("--roster", "bad.json") if options[0] == "node" else main(["federate", *options])) == 2
        assert "'bad.json': " in capsys.readouterr().err
