"""Federated learning that does not leak: train under differential privacy, account for it, attack it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradveil.__about__ import __version__
from gradveil.devices import prepare as _prepare

if TYPE_CHECKING:
    from gradveil import methods, parts
    from gradveil.api import attack, audit, dataset, load, model, plan, report, train, tune
    from gradveil.data.dataset import Dataset
    from gradveil.errors import BadInput, RunFailed
    from gradveil.federation.plan import Plan
    from gradveil.inference.classifier import FederatedClassifier
    from gradveil.inference.regressor import FederatedRegressor
    from gradveil.inference.trained import Trained
    from gradveil.privacy.method import Method
    from gradveil.surface import Surface

_prepare()

__all__ = [
    "BadInput",
    "Dataset",
    "FederatedClassifier",
    "FederatedRegressor",
    "Method",
    "Plan",
    "RunFailed",
    "Surface",
    "Trained",
    "__version__",
    "attack",
    "audit",
    "dataset",
    "load",
    "methods",
    "model",
    "parts",
    "plan",
    "report",
    "train",
    "tune",
]

_HOMES = {
    "gradveil.api": ("attack", "audit", "dataset", "load", "model", "plan", "report", "train", "tune"),
    "gradveil.data.dataset": ("Dataset",),
    "gradveil.errors": ("RunFailed", "BadInput"),
    "gradveil.federation.plan": ("Plan",),
    "gradveil.inference.classifier": ("FederatedClassifier",),
    "gradveil.inference.regressor": ("FederatedRegressor",),
    "gradveil.inference.trained": ("Trained",),
    "gradveil.privacy.method": ("Method",),
    "gradveil.surface": ("Surface",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: JAX starts only if it is needed."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    if name in ("methods", "parts"):
        return import_module(f"gradveil.{name}")
    raise AttributeError(f"module 'gradveil' has no attribute {name!r}")
