"""What XLA is told before it starts: devices, one thread each, and nothing where the user decided."""

import pytest

from gradveil import devices
from gradveil.errors import BadInput


@pytest.fixture
def prepared(monkeypatch):
    """Give a function that prepares in an environment of these variables alone, and returns flags and threads."""

    def prepare(**variables):
        for name in ("GRADVEIL_DEVICES", "XLA_FLAGS", "PJRT_NPROC"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        devices.prepare()
        return devices.os.environ.get("XLA_FLAGS", ""), devices.os.environ.get("PJRT_NPROC")

    return prepare


@pytest.mark.parametrize("count", ["1", "3"])
def test_it_asks_for_as_many_devices_and_threads_as_wished(prepared, count):
    flags, threads = prepared(GRADVEIL_DEVICES=count, XLA_FLAGS="--xla_other=1")
    assert flags.startswith("--xla_other=1 ")
    assert f"--xla_force_host_platform_device_count={count} " in flags
    assert threads == count


def test_the_users_number_of_threads_stays(prepared):
    assert prepared(GRADVEIL_DEVICES="2", PJRT_NPROC="5")[1] == "5"


@pytest.mark.parametrize(
    "variables", [{"GRADVEIL_DEVICES": "off"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}]
)
def test_nothing_is_set_where_the_user_decided(prepared, variables):
    assert prepared(**variables) == (variables.get("XLA_FLAGS", ""), None)


@pytest.mark.parametrize("wish", ["0", "513", "two", "-1"])
def test_a_wish_that_is_no_such_number_is_refused(prepared, wish):
    with pytest.raises(BadInput, match="GRADVEIL_DEVICES"):
        prepared(GRADVEIL_DEVICES=wish)
