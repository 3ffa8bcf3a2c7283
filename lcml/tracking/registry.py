"""Models in MLflow: an ONNX model logged to a run, registered under a name, and fetched by that name.

A logged model has its sidecars beside it, so that what is fetched can be served with its explanations.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcml.errors import TrackingError
from lcml.tracking.address import shown
from lcml.tracking.models import CONFIG, described, log_model, ready_models, requirements_unchecked, untraced
from lcml.tracking.runs import opened
from lcml.tracking.store import quiet

MODEL_FILE = "model.onnx"
EXPLANATION_FILE = "model.explain.json"
REPORT_FILE = "model.report.json"
LOADER_FILE = "code/lcml_onnx.py"
"""How MLflow's pyfunc runs the model. The `onnx` flavour, which stays beside it, flattens the answer to a frame."""

MODEL_NAME = "onnx"
"""What the models of a run that `log_onnx` logs are called."""

_VERSIONS_TAG = "mlflow.modelVersions"  # of a logged model: where MLflow's pages read that it is registered

PROVIDERS = ("CPUExecutionProvider",)

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"  # as lcml_serving.settings.MODEL_NAME: it becomes a directory and a URL
_REFERENCE = re.compile(rf"models:/({_NAME})(?:@([^/@]+)|/(\d+))")
_ALIAS = re.compile(r"(?!(?i:v\d+|latest)$)[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of a registered model and what it is: `model_id` of the logged model, `run_id` of its run."""

    name: str
    version: int
    alias: str | None
    model_id: str
    run_id: str


def is_reference(text: str) -> bool:
    """Whether `text` names a registered model rather than a file."""
    return text.startswith("models:/")


def log_onnx(
    run_id: str,
    files: Mapping[str, bytes],
    example: Any,
    *,
    params: Mapping[str, object] | None = None,
    uri: str | None = None,
) -> str:
    """Log an ONNX model to a run: MODEL_FILE, LOADER_FILE and sidecars, whole in one file and run on the CPU; its id.

    example: raw features, a frame or an array by the name of the input. Kept with the model, and run through MLflow
    first; the signature is that of its columns, which MLflow finds by name, or of the array. params: what is said of
    the model. Raises TrackingError where that fails or the store does not answer, MissingDependencyError.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    with opened(uri) as store:
        return log_model(
            store,
            run_id,
            MODEL_NAME,
            lambda directory, logged: _write_model(directory, files, example, run_id, logged),
            params or {},
        )


def register(run_id: str, name: str, alias: str | None = None, uri: str | None = None) -> RegisteredVersion:
    """Make the last ONNX model of a run a new version of the registered model `name`, and what `alias` stands for.

    TrackingError for a run without such a model, a name or alias that MLflow does not take, a store without answer.
    """
    if not re.fullmatch(_NAME, name):
        raise TrackingError(f"name {name!r}: expected letters, digits, ., _ and -, a letter or digit first")
    if alias is not None and not _ALIAS.fullmatch(alias):
        raise TrackingError(
            f"alias {alias!r}: expected letters, digits, - and _, neither 'latest' nor like a version ('v2')"
        )
    with opened(uri) as store:
        from mlflow.exceptions import MlflowException

        models = ready_models(store, run_id, MODEL_NAME)
        if not models:
            raise TrackingError(f"run {run_id} has no ONNX model; log one with `lcml export --run {run_id}`")
        logged = models[-1]
        try:
            store.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        made = store.client.create_model_version(name, logged.artifact_location, run_id, model_id=logged.model_id)
        versions = json.loads(logged.tags.get(_VERSIONS_TAG, "[]"))
        versions += [{"name": name, "version": str(made.version)}]
        store.client.set_logged_model_tags(logged.model_id, {_VERSIONS_TAG: json.dumps(versions)})
        if alias is not None:
            store.client.set_registered_model_alias(name, alias, made.version)
    return RegisteredVersion(name, int(made.version), alias, str(logged.model_id), run_id)


def fetch_onnx(reference: str, directory: Path, uri: str | None = None) -> Path:
    """Put the registered model `models:/NAME@ALIAS` or `models:/NAME/VERSION` into a repository, with its sidecar.

    The model becomes directory/NAME/VERSION/model.onnx; its path. Raises TrackingError where there is no such model, or
    it is no ONNX model, or the store does not answer.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise TrackingError(
            f"model {reference!r}: expected models:/NAME@ALIAS or models:/NAME/VERSION (NAME: letters, digits, . _ -)"
        )
    name, alias, version = match.groups()
    with opened(uri) as store, tempfile.TemporaryDirectory(prefix="lcml-") as temporary:
        with quiet():
            from mlflow.artifacts import download_artifacts
            from mlflow.models import Model

        if version is None:
            version = str(store.client.get_model_version_by_alias(name, alias).version)
        source = store.client.get_model_version_download_uri(name, version)
        fetched = Path(download_artifacts(artifact_uri=source, dst_path=temporary, tracking_uri=store.uri))
        flavor = Model.load(str(fetched)).flavors.get("onnx")
        if flavor is None:
            raise TrackingError(
                f"{reference} at {shown(store.uri)} is no ONNX model; log one with `lcml export --run RUN`"
            )
        target = directory / name / version / MODEL_FILE
        target.parent.mkdir(parents=True, exist_ok=True)
        model = fetched / flavor["data"]
        shutil.copyfile(model, target)
        sidecar = model.with_name(EXPLANATION_FILE)
        if sidecar.exists():
            shutil.copyfile(sidecar, target.with_name(EXPLANATION_FILE))
    return target


def _write_model(directory: Path, files: Mapping[str, bytes], example: Any, run_id: str, logged: Any) -> None:
    """The directory that MLflow calls a model. Not by log_model: that goes by global state of MLflow's."""
    with quiet(), requirements_unchecked():
        import mlflow.onnx
        import mlflow.pyfunc
        from mlflow.models import infer_signature

        model, loader = described(run_id, logged), Path(LOADER_FILE)
        mlflow.onnx.save_model(
            files[MODEL_FILE],
            str(directory),
            mlflow_model=model,
            input_example=example,
            pip_requirements=mlflow.onnx.get_default_pip_requirements(),
            onnx_execution_providers=list(PROVIDERS),
            save_as_external_data=False,
        )
        (directory / loader.parent).mkdir()
        for name, content in files.items():
            (directory / name).write_bytes(content)
        model.flavors[mlflow.pyfunc.FLAVOR_NAME] |= {
            mlflow.pyfunc.MAIN: loader.stem,
            mlflow.pyfunc.CODE: str(loader.parent),
            mlflow.pyfunc.MODEL_CONFIG: CONFIG,
        }
        model.save(str(directory / "MLmodel"))
        predicted = untraced(mlflow.pyfunc.load_model)(str(directory), suppress_warnings=True).predict(example)
        model.signature = infer_signature(example, predicted)
    model.save(str(directory / "MLmodel"))
