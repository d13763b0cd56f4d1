"""Who holds which key in a federation on one machine, which is laid out as one on many."""

from gradveil.deployment import enrollment
from gradveil.deployment.local import local
from gradveil.deployment.policy import STRICT

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
