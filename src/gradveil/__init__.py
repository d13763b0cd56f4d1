"""Federated learning that does not leak: train under differential privacy, account for it, attack it."""

from gradveil.__about__ import __version__
from gradveil.devices import prepare as _prepare

_prepare()

__all__ = ["__version__"]
