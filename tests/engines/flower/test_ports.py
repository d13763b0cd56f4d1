"""Ports of a local federation."""

import itertools
import secrets
import socket

import pytest

from gradveil.engines.flower import processes


def test_no_port_is_chosen_twice(monkeypatch):
    draws = itertools.cycle([7, 7, 8, 7, 8, 9])
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(draws))
    assert len(set(processes.free_ports(3))) == 3


def test_a_port_in_use_is_passed_over(monkeypatch):
    (taken,) = processes.free_ports(1)
    draws = itertools.cycle([taken - processes.PORTS.start, 11])
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(draws))
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        assert taken not in processes.free_ports(1)


def test_a_host_without_a_free_port_is_told(monkeypatch):
    (taken,) = processes.free_ports(1)
    monkeypatch.setattr(secrets, "randbelow", lambda _: taken - processes.PORTS.start)
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        with pytest.raises(processes.Failed, match="no free port"):
            processes.free_ports(1)
