"""Who holds which key in a federation on one machine, which is laid out as one on many."""

import os
import stat

from gradveil.deployment import enrollment
from gradveil.deployment.local import local
from gradveil.deployment.policy import STRICT
from gradveil.engines.flower import credentials

NAMES = ("site-0", "site-1", "site-2")


def private_keys(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes())


def test_each_node_holds_its_own_key_alone_and_all_pin_the_same_roster():
    with local(NAMES, "digits", STRICT) as here:
        assert private_keys(here.server.keys) == ["ca.key", "server.key"]
        for name, node in here.nodes.items():
            assert private_keys(node.state) == [f"{name}.key"]
            assert node.key.parent == node.state
            assert enrollment.own_name(enrollment.pinned(node.state), node.key) == name
        assert len({enrollment.pinned(node.state).fingerprint for node in here.nodes.values()}) == 1


def test_a_private_key_is_its_owners_alone_whatever_the_mask(tmp_path):
    before = os.umask(0)
    try:
        private, public = credentials.make_pair(tmp_path, "site-0")
        made = credentials.make(tmp_path / "keys", ["localhost"], ["site-1"])
    finally:
        os.umask(before)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.suffix == ".key"} == {0o600}
