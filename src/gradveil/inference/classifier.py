"""A classifier by the conventions of scikit-learn: fit, predict, predict_proba and score, at an epsilon."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gradveil.data.dataset import UNCOVERED, Dataset, Split
from gradveil.data.user_npz import examples_of
from gradveil.errors import BadInput
from gradveil.inference.estimators import NAME, fitted
from gradveil.inference.examples import Array

LISTED = f"The list of classes {UNCOVERED}"


class FederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train on a matrix of numbers whose rows are dealt to clients, so that epsilon holds for each row.

    epsilon: what may be spent at `delta` against `threat_model`; None trains without protection. method: a name from
    `gradveil list methods`. clients, rounds: those of the method's preset if None. random_state: None draws noise from
    the operating system's entropy; a number makes the fit reproducible, and whoever knows it can subtract the noise.

    Columns are used as they are: scale them by public constants beforehand. A scaler that is fitted to the same rows,
    in a Pipeline for instance, is covered by no epsilon. After fit: classes_, n_features_in_, model_ (a
    `gradveil.Trained`) and guarantee_, what holds against `threat_model`.
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        delta: float = 1e-5,
        method: str = "fed-sum",
        threat_model: str = "server",
        clients: int | None = None,
        rounds: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.threat_model = threat_model
        self.clients = clients
        self.rounds = rounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "FederatedClassifier":
        """Train on rows X [n, features] and their labels y [n]."""
        X, y = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise BadInput(f"y: holds one class only ({classes[0]!r}), and at least two are needed")
        split = Split(examples_of(X, "X"), numbers.astype(np.int32))
        data = Dataset(NAME, split, None, split, tuple(map(str, classes)), own=True, caveats=(LISTED,))
        self.model_ = fitted(self, data)
        self.classes_ = classes
        self.guarantee_ = self.model_.guarantee(self.threat_model)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, in the order of `classes_`, [n, classes]."""
        check_is_fitted(self, "model_")
        return self.model_.predict_proba(validate_data(self, X, dtype=np.float32, reset=False))

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row."""
        probabilities = self.predict_proba(X)
        likeliest: Array = self.classes_[np.argmax(probabilities, axis=1)]
        return likeliest
