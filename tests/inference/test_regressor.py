"""FederatedRegressor by scikit-learn's own checks, in a Pipeline, and by what it guarantees."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import gradveil
from gradveil.inference.regressor import RANGE

SKIPPED = {
    "check_array_api_input": "runs only where SCIPY_ARRAY_API is set",
    "check_regressor_data_not_an_array": "runs only where pandas is installed",
}
"""Checks of scikit-learn that may be skipped, and why; none is expected to fail."""


@pytest.mark.slow
def test_the_checks_of_scikit_learn_pass():
    """One of them wants R^2 above 0.5 of 200 rows, for which epsilon 1 is too little (0.47)."""
    results = check_estimator(gradveil.FederatedRegressor(epsilon=10.0, random_state=0), on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"])[:300] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= SKIPPED.keys()
    assert len(results) >= 50


def rows(n=600):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, 3))
    return x, 100 + 40 * x[:, 0] - 20 * x[:, 1]


def test_it_stands_in_a_pipeline_predicts_in_the_units_of_y_and_spends_what_it_may():
    x, y = rows()
    regressor = gradveil.FederatedRegressor(epsilon=3.0, target_range=(0, 200), random_state=1)
    model = make_pipeline(FunctionTransformer(lambda x: x / 2.0), regressor).fit(x, y)
    fitted = model[-1]
    assert model.score(x, y) > 0.8
    assert 2.5 < fitted.guarantee_.epsilon <= 3.0
    assert abs(np.mean(model.predict(x)) - 100) < 10
    assert RANGE not in fitted.guarantee_.caveats


def test_a_range_that_is_taken_from_the_rows_is_a_caveat():
    model = gradveil.FederatedRegressor(rounds=4, random_state=1).fit(*rows(120))
    assert model.guarantee_.caveats[0] == RANGE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "fed-dcp"}, "method = 'fed-dcp'"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"target_range": (3, 1)}, "target_range"),
        ({"clients": 0}, "clients = 0"),
        ({"epsilon": "a"}, "epsilon = 'a': a number is expected"),
        ({"target_range": ()}, r"target_range = \(\): two numbers are expected"),
        ({"target_range": "ab"}, "target_range = 'ab': two numbers are expected"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused_when_it_is_fitted(changes, said):
    with pytest.raises(gradveil.BadInput, match=said):
        gradveil.FederatedRegressor(**changes).fit(*rows(60))


def test_a_range_may_be_an_array_and_stays_as_it_was_given():
    given = np.array([0, 200])
    model = gradveil.FederatedRegressor(target_range=given, rounds=4, random_state=1).fit(*rows(120))
    assert RANGE not in model.guarantee_.caveats
    assert model.get_params()["target_range"] is given


def test_numbers_beyond_a_million_are_refused():
    x, y = rows(60)
    with pytest.raises(gradveil.BadInput, match=r"x in X has a value beyond 1e\+06 in size, first in record 0"):
        gradveil.FederatedRegressor().fit(x * 1e30, y)


def test_after_a_refused_fit_it_is_not_fitted():
    model = gradveil.FederatedRegressor(clients=0)
    with pytest.raises(gradveil.BadInput):
        model.fit(*rows(60))
    with pytest.raises(NotFittedError):
        model.predict(rows(60)[0])
