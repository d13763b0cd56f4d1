"""FederatedClassifier by scikit-learn's own checks, in a Pipeline, and by what it guarantees."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import gradveil

SKIPPED = {
    "check_array_api_input": "runs only where SCIPY_ARRAY_API is set",
    "check_classifier_data_not_an_array": "runs only where pandas is installed",
}
"""Checks of scikit-learn that may be skipped, and why; none is expected to fail."""


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"epsilon": None, "rounds": 30}], ids=["epsilon 1", "no noise"])
def test_the_checks_of_scikit_learn_pass(changes):
    model = gradveil.FederatedClassifier(random_state=0, **changes)
    results = check_estimator(model, on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"])[:300] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= SKIPPED.keys()
    assert len(results) >= 50


def blobs(n=600):
    x, y = make_blobs(n, centers=3, n_features=4, random_state=2)
    return x / 20, np.array(["a", "b", "c"])[y]


def test_it_stands_in_a_pipeline_and_spends_what_it_may():
    x, y = blobs()
    model = make_pipeline(
        FunctionTransformer(lambda x: x * 2.0), gradveil.FederatedClassifier(epsilon=3.0, random_state=1)
    )
    assert model.fit(x, y).score(x, y) > 0.9
    fitted = model[-1]
    assert fitted.guarantee_.epsilon <= 3.0
    assert fitted.guarantee_.epsilon > 2.5
    assert set(model.predict(x)) == {"a", "b", "c"}
    np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1, rtol=1e-6)
    assert model.predict(x).tolist() == fitted.classes_[model.predict_proba(x).argmax(axis=1)].tolist()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "fed-dcp"}, "method = 'fed-dcp'"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"threat_model": "x"}, "threat_model = 'x'"),
        ({"clients": 0}, "clients = 0"),
        ({"epsilon": "a"}, "epsilon = 'a': a number is expected"),
        ({"random_state": "x"}, "random_state = 'x': a seed"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused_when_it_is_fitted(changes, said):
    with pytest.raises(gradveil.BadInput, match=said):
        gradveil.FederatedClassifier(**changes).fit(*blobs(60))


def test_numbers_beyond_a_million_are_refused():
    x, y = blobs(60)
    with pytest.raises(gradveil.BadInput, match=r"x in X has a value beyond 1e\+06 in size, first in record"):
        gradveil.FederatedClassifier().fit(x * 1e30, y)


def test_after_a_refused_fit_it_is_not_fitted():
    model = gradveil.FederatedClassifier(clients=0)
    with pytest.raises(gradveil.BadInput):
        model.fit(*blobs(60))
    with pytest.raises(NotFittedError):
        model.predict(blobs(60)[0])


def test_it_stands_behind_a_scaler():
    x, y = blobs(200)
    model = make_pipeline(StandardScaler(), gradveil.FederatedClassifier(epsilon=5.0, random_state=1)).fit(x * 1000, y)
    assert model.score(x * 1000, y) > 0.8


def test_one_class_is_refused():
    with pytest.raises(gradveil.BadInput, match="one class only"):
        gradveil.FederatedClassifier().fit(np.zeros((20, 2)), np.zeros(20))
