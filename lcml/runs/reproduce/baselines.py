"""The models of other libraries that circuits are compared with, which are imported when one is fitted.

Nothing of them is chosen here, so validation examples are only measured. The paper's appendix has the trees, the layers
and the SVM's C and gamma. Those of the SVM are MNIST's for both sets: the paper's for Fashion-MNIST (C = 4, gamma = 25)
classify pixels in [0, 1] at random (10.3% of 2,000 validation images after 5,400; with MNIST's 87.3%).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data import DataSplits

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "logistic-regression": {"max_iter": 300},
    "forest": {"n_estimators": 500},
    "svm": {"C": 8.0, "gamma": 0.05},
    "mlp-3": {"hidden_layer_sizes": [1000, 500, 250], "max_iter": 50},
    "mlp-5": {"hidden_layer_sizes": [1000, 500, 250, 2000, 250], "max_iter": 50},
    "cnn": {"filters": [32, 64, 128], "units": 1024, "max_iter": 15, "batch_size": 32},
}
"""Arguments of the estimators; the others are scikit-learn's defaults. max_iter is a cap that rows record."""

QUICK: Mapping[str, Mapping[str, Any]] = {
    "logistic-regression": {"max_iter": 10},
    "forest": {"n_estimators": 20},
    "svm": {},
    "mlp-3": {"max_iter": 1},
    "mlp-5": {"max_iter": 1},
    "cnn": {"max_iter": 1},
}
"""What --quick changes of them."""

PACKAGES: Mapping[str, str] = {key: "jax" if key == "cnn" else "scikit-learn" for key in SETTINGS}
"""What fits each of them."""

_WHITE = 255
_SVM_CACHE_MB = 1000


@dataclass(frozen=True)
class Fitted:
    """What came out. n_parameters: None where it is not defined; n_stored: what is kept instead, the numbers of an
    SVM's support vectors or the nodes of a forest; n_iterations: None where nothing iterates; converged: whether it
    ended before its cap."""

    valid_accuracy: float
    test_accuracy: float
    n_parameters: int | None
    n_stored: int | None
    n_iterations: int | None
    converged: bool
    seconds: float


def fit(key: str, settings: Mapping[str, Any], splits: DataSplits, seed: int) -> Fitted:
    """Fit the baseline `key` to the training images, pixels scaled to [0, 1]; seconds are those of the fit alone."""
    from joblib import parallel_config
    from sklearn.exceptions import ConvergenceWarning

    estimator = _estimator(key, settings, seed)
    with parallel_config("threading"):  # a process of another one may start none of its own
        started = monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row says so
            estimator.fit(_scaled(splits.train.features[:]), splits.train.labels)
        seconds = monotonic() - started
        valid, test = (
            float(np.mean(estimator.predict(_scaled(part.features[:])) == part.labels))
            for part in (splits.valid, splits.test)
        )
    cap = settings.get("max_iter")
    n_iterations = None if cap is None else int(np.max(estimator.n_iter_))
    return Fitted(
        valid_accuracy=valid,
        test_accuracy=test,
        n_parameters=_n_parameters(estimator),
        n_stored=_n_stored(estimator),
        n_iterations=n_iterations,
        converged=cap is None or n_iterations is None or n_iterations < cap,
        seconds=seconds,
    )


def _estimator(key: str, settings: Mapping[str, Any], seed: int) -> Any:
    if key == "logistic-regression":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(**settings)
    if key == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(**settings, random_state=seed, n_jobs=-1)
    if key == "svm":
        from sklearn.svm import SVC

        return SVC(**settings, cache_size=_SVM_CACHE_MB)
    if key == "cnn":
        from lcml.runs.reproduce.network import ConvolutionalNetwork

        return ConvolutionalNetwork(**settings, random_state=seed)
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(**settings, random_state=seed)


def _n_parameters(estimator: Any) -> int | None:
    """Weights and biases; a forest and a kernel machine keep (a function of) their training examples instead."""
    for weights, biases in (("coefs_", "intercepts_"), ("coef_", "intercept_")):
        if hasattr(estimator, weights):
            arrays = [*getattr(estimator, weights), *getattr(estimator, biases)]
            return sum(int(np.size(array)) for array in arrays)
    return None


def _n_stored(estimator: Any) -> int | None:
    if hasattr(estimator, "estimators_"):
        return sum(int(tree.tree_.node_count) for tree in estimator.estimators_)
    return int(estimator.support_vectors_.size) if hasattr(estimator, "support_vectors_") else None


def _scaled(images: NDArray[Any]) -> NDArray[np.float32]:
    return images.astype(np.float32) / np.float32(_WHITE)
