"""Proposition 1: a fitted logistic regression as a circuit, the same probabilities."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from lcml.errors import SettingsError
from lcml.model.linear import from_logistic_regression


@pytest.mark.parametrize(("n_classes", "solver"), [(2, "lbfgs"), (2, "liblinear"), (4, "lbfgs")])
def test_the_probabilities_are_those_of_scikit_learn(n_classes: int, solver: str) -> None:
    generator = np.random.default_rng(n_classes)
    x = generator.normal(size=(120, 5)) * [1, 10, 0.1, 5, 2] + [0, 3, 0, -8, 1]
    x[:, 4] = 1.5  # a constant
    y = np.array(["a", "b", "c", "d"])[np.digitize(x[:, 0] + generator.normal(size=120), [-1, 0, 1][: n_classes - 1])]
    fitted = LogisticRegression(solver=solver, max_iter=1000).fit(x, y)
    model = from_logistic_regression(fitted, x.min(axis=0), x.max(axis=0))
    assert model.classes == tuple(fitted.classes_)
    assert model.n_parameters == 6 * (n_classes if n_classes > 2 else 1)
    assert model.predict_proba(x, precision="float64") == pytest.approx(fitted.predict_proba(x), abs=1e-6)


def test_refuses_what_is_no_fitted_logistic_regression() -> None:
    with pytest.raises(SettingsError, match="found a LinearRegression"):
        from_logistic_regression(LinearRegression())
    with pytest.raises(SettingsError, match="fit it first"):
        from_logistic_regression(LogisticRegression())
    fitted = LogisticRegression().fit([[0.0], [1.0]], np.array([1, 1]) < [0.5, 1.5])
    with pytest.raises(SettingsError, match="whole numbers or all text"):
        from_logistic_regression(fitted)
