"""Logistic regression as a logistic circuit: weights on literals alone.

    g_k(x) = b_k + sum_j w_kj x_j = b_k + sum_j w_kj low_j + sum_j w_kj (high_j - low_j) q_j,   low_j <= x_j <= high_j

for the encoder q_j = (x_j - low_j) / (high_j - low_j), since the flow of literal X_j is q_j in every circuit.
Source: Liang & Van den Broeck, AAAI 2019, Proposition 1 and Fig. 2.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lcml.circuits.circuit import initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView
from lcml.circuits.vtree import balanced
from lcml.errors import SettingsError
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.head import Link
from lcml.model.model import LogisticCircuit


def from_logistic_regression(fitted: Any, low: ArrayLike = 0.0, high: ArrayLike = 1.0) -> LogisticCircuit:
    """The circuit of a fitted `sklearn.linear_model.LogisticRegression`: the same probabilities, up to rounding, where
    low <= x <= high, each one number or one per feature; values beyond count as the nearer bound.

    Of three classes or more one-vs-rest (solver liblinear) keeps the sigmoid, all others are the softmax. Raises
    SettingsError for another estimator, or one that is not fitted, DataError where low is above high.
    """
    if not all(hasattr(fitted, name) for name in ("coef_", "intercept_", "classes_", "solver")):
        found = f"found a {type(fitted).__name__}"
        raise SettingsError(f"expected a fitted LogisticRegression of scikit-learn, {found}; fit it first")
    coefficients, bias = np.atleast_2d(fitted.coef_), np.ravel(fitted.intercept_) + np.zeros(len(fitted.coef_))
    classes, d = fitted.classes_.tolist(), coefficients.shape[1]
    if not (all(type(c) is int for c in classes) or all(type(c) is str for c in classes)):
        raise SettingsError(f"expected classes that are all whole numbers or all text, found {classes}")
    encoder = ScaleEncoder(np.broadcast_to(low, d), np.broadcast_to(high, d))
    circuit = initial_circuit(balanced(d))
    weighted = np.arange(circuit.n_literals + circuit.n_elements) < d
    in_two = len(classes) == 2
    twice = 1 + (in_two and getattr(fitted, "multi_class", None) == "multinomial")  # the softmax of -g and g
    link: Link = "sigmoid" if in_two or fitted.solver == "liblinear" else "softmax"
    names = [str(name) for name in getattr(fitted, "feature_names_in_", ())]
    of_names = {"data": {"feature_names": names}} if names else {}
    return LogisticCircuit(
        encoder,
        (Part(IdentityView(d), circuit, weighted),),
        tuple(classes),
        twice * coefficients * (encoder.high - encoder.low),
        twice * (bias + coefficients @ encoder.low),
        link,
        {"converted_from": type(fitted).__name__, **of_names},
    )
