"""A regressor by the conventions of scikit-learn: fit, predict and score, at an epsilon."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gradveil.data.dataset import UNCOVERED, Dataset
from gradveil.data.user_npz import examples_of
from gradveil.errors import BadInput
from gradveil.inference.estimators import FIT, fitted
from gradveil.inference.examples import Array

RANGE = f"The range of the target {UNCOVERED}"


class FederatedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a number from a matrix of numbers whose rows are dealt to clients, so that epsilon holds for each row.

    epsilon: what may be spent at `delta` against `threat_model`; None trains without protection. target_range: (low,
    high) of y as a public fact, to which y is clipped; None takes it from y, which no epsilon covers, and a caveat says
    so. method: a name from `gradveil list methods`. clients, rounds: those of the method's preset if None.
    random_state: None draws noise from the operating system's entropy; a number makes the fit reproducible, and
    whoever knows it can subtract the noise.

    Columns are used as they are: scale them by public constants beforehand. After fit: n_features_in_, model_ (a
    `gradveil.Trained`) and guarantee_, what holds against `threat_model`.
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        target_range: tuple[float, float] | None = None,
        delta: float = 1e-5,
        method: str = "fed-sum",
        threat_model: str = "server",
        clients: int | None = None,
        rounds: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.target_range = target_range
        self.delta = delta
        self.method = method
        self.threat_model = threat_model
        self.clients = clients
        self.rounds = rounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "FederatedRegressor":
        """Train on rows X [n, features] and their numbers y [n]."""
        X, y = validate_data(self, X, y, dtype=np.float32, y_numeric=True)
        y = np.asarray(y, np.float64)
        if len(y) < 2:
            raise BadInput("X: holds n_samples = 1 row, and at least two are needed")
        X = examples_of(X, "X")
        bounds = _range(y) if self.target_range is None else self.target_range
        data = Dataset.of(X, y, test=(X, y), target_range=bounds, name=FIT)
        if self.target_range is None:
            data = replace(data, caveats=(*data.caveats, RANGE))
        self.model_ = fitted(self, data)
        self.guarantee_ = self.model_.guarantee(self.threat_model)
        return self

    def predict(self, X: Any) -> Array:
        """Return the number of each row, in the units of y."""
        check_is_fitted(self, "model_")
        return self.model_.predict(validate_data(self, X, dtype=np.float32, reset=False))


def _range(y: Array) -> tuple[float, float]:
    """Return the least and the largest number, or a range of 1 around the only one."""
    low, high = float(y.min()), float(y.max())
    return (low, high) if low < high else (low - 0.5, low + 0.5)
