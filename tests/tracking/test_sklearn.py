"""The classifier as MLflow records, keeps and evaluates scikit-learn's estimators."""

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from lcml import LogisticCircuitClassifier
from lcml.formats import save_model
from lcml.tracking import MlflowTracker
from tests.tracking.stores import DATA, address, rows

TRUSTED = ["lcml.estimator.LogisticCircuitClassifier"]


def small() -> LogisticCircuitClassifier:
    return LogisticCircuitClassifier(
        rounds=1, round_iterations=3, final_iterations=3, l2_path=(0.1,), backend="numpy", valid_fraction=0
    )


@pytest.fixture(scope="module")
def iris() -> Any:
    """A frame, with whole numbers as labels."""
    return load_iris(as_frame=True, return_X_y=True)


@pytest.fixture(scope="module")
def fitted(iris: Any) -> LogisticCircuitClassifier:
    return small().fit(*iris)


@pytest.fixture
def store(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The store that MLflow's own functions write to. It asks pip for no requirements, which takes half a minute."""
    import mlflow

    monkeypatch.setattr("mlflow.models.infer_pip_requirements", lambda *_, fallback, **__: fallback)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's, of what it does itself
        mlflow.set_tracking_uri(address(database))
        mlflow.set_experiment("other")
        yield database
        mlflow.set_tracking_uri(None)  # as before: what the environment says


def test_autologging_records_a_fit(store: Path, iris: Any) -> None:
    import mlflow.sklearn

    mlflow.sklearn.autolog(log_datasets=False)
    try:
        with mlflow.start_run() as run:
            model = small().fit(*iris)
        mlflow.sklearn.autolog(log_models=False, log_datasets=False)
        with mlflow.start_run() as second:
            small().fit(*iris)
    finally:
        mlflow.sklearn.autolog(disable=True)
    with mlflow.start_run() as third:
        small().fit(*iris)
    found = mlflow.get_run(run.info.run_id)
    assert found.data.params == {name: str(value) for name, value in model.get_params().items()}
    assert found.data.tags["estimator_class"] == TRUSTED[0]
    accuracy = float(np.mean(model.predict(iris[0]) == iris[1]))
    assert found.data.metrics["training_accuracy_score"] == pytest.approx(accuracy)
    (logged,) = found.outputs.model_outputs
    loaded = mlflow.sklearn.load_model(f"models:/{logged.model_id}")
    np.testing.assert_array_equal(loaded.predict_proba(iris[0]), model.predict_proba(iris[0]))
    again, off = mlflow.get_run(second.info.run_id), mlflow.get_run(third.info.run_id)
    assert (again.data.metrics, again.outputs.model_outputs) == (found.data.metrics, [])
    assert (off.data.metrics, off.data.params) == ({}, {})


def test_a_logged_classifier_predicts_as_before(store: Path, iris: Any, fitted: LogisticCircuitClassifier) -> None:
    import mlflow.sklearn

    expected = fitted.predict_proba(iris[0])
    pickled = mlflow.sklearn.log_model(fitted, name="pickled", serialization_format="cloudpickle")
    info = mlflow.sklearn.log_model(fitted, name="model", skops_trusted_types=TRUSTED, input_example=iris[0][:2])
    for uri in (info.model_uri, pickled.model_uri):
        loaded = mlflow.sklearn.load_model(uri)
        np.testing.assert_array_equal(loaded.predict_proba(iris[0]), expected)
        assert (loaded.history_, loaded.get_params()) == (fitted.history_, fitted.get_params())
    frame = iris[0].astype("float64")
    labels = mlflow.pyfunc.load_model(info.model_uri).predict(frame[frame.columns[::-1]])
    assert labels.tolist() == fitted.predict(iris[0]).tolist()
    evaluated = evaluate(info.model_uri, iris)
    assert evaluated.metrics["accuracy_score"] == pytest.approx(float(np.mean(labels == iris[1])))
    assert {"roc_auc", "log_loss"} <= set(evaluated.metrics)


def test_the_evaluator_takes_the_model_of_a_run(store: Path, iris: Any, fitted: LogisticCircuitClassifier) -> None:
    save_model(fitted.model_, store.parent / "model.lcml")
    tracker = MlflowTracker(address(store))
    tracker.start("run", {}, {}, DATA)
    tracker.artifact("model.lcml", store.parent / "model.lcml", loader="lcml.runs.pyfunc")
    tracker.finish("FINISHED")
    ((model_id,),) = rows(store, "select model_id from logged_models")
    evaluated = evaluate(f"models:/{model_id}", iris, model_config={"output": "label"})
    right = int(np.sum(fitted.predict(iris[0]) == iris[1]))
    assert evaluated.metrics["accuracy_score"] == pytest.approx(right / 150)
    assert evaluated.metrics["example_count"] == 150
    assert "confusion_matrix" in evaluated.artifacts


def evaluate(uri: str, iris: Any, **options: Any) -> Any:
    """MLflow's evaluation on a frame; with its explainer where the package shap is there."""
    import mlflow

    explained = find_spec("shap") is not None
    config = {"log_model_explainability": explained, "explainability_nsamples": 3}
    data = iris[0].assign(target=iris[1])
    with mlflow.start_run():
        evaluated = mlflow.models.evaluate(
            uri, data, targets="target", model_type="classifier", evaluator_config=config, **options
        )
    assert ("shap_feature_importance_plot" in evaluated.artifacts) == explained
    return evaluated
