"""Models that MLflow keeps of a run: with the run's parameters, data set and figures."""

import contextlib
import hashlib
import inspect
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from lcml.tracking.records import FINAL, MAX_PARAM, MODEL, cut
from lcml.tracking.store import Store, quiet

NATIVE_NAME = "lcml"
"""What the model of a run that is no export is called."""

CONFIG = {"output": None}
"""What `model_config` may say as MLflow loads a model: which of its outputs alone it answers."""

_CONTENT_TAG = "lcml.sha256"

_alone = threading.Lock()  # who has replaced a function of MLflow's puts it back before the next one does


def log_model(
    store: Store,
    run_id: str,
    name: str,
    write: Callable[[Path, Any], None],
    params: Mapping[str, object],
    tags: Mapping[str, str] | None = None,
) -> str:
    """Log what `write` puts into a directory, given the logged model, as a model of the run; the model's id."""
    from mlflow.entities import LoggedModelOutput, Metric

    client, run = store.client, store.client.get_run(run_id)
    said = {**run.data.params, **{key: cut(str(value), MAX_PARAM) for key, value in params.items()}}
    logged = client.create_logged_model(
        run.info.experiment_id, name, run_id, params=said, tags=dict(tags or {}), model_type="classifier"
    )
    model_id = str(logged.model_id)
    try:
        with tempfile.TemporaryDirectory(prefix="lcml-") as directory:
            write(Path(directory) / "model", logged)
            client.log_model_artifacts(model_id, str(Path(directory) / "model"))
        client.finalize_logged_model(model_id, "READY")
        client.log_outputs(run_id, [LoggedModelOutput(model_id, step=0)])
        inputs = run.inputs.dataset_inputs if run.inputs else []
        data = {"dataset_name": inputs[0].dataset.name, "dataset_digest": inputs[0].dataset.digest} if inputs else {}
        last = [
            client.get_metric_history(run_id, key)[-1] for key in run.data.metrics if key.startswith((FINAL, MODEL))
        ]
        figures = [Metric(one.key, one.value, one.timestamp, one.step, model_id=model_id, **data) for one in last]
        client.log_batch(run_id, metrics=figures, synchronous=True)
    except BaseException:
        with contextlib.suppress(Exception):
            client.finalize_logged_model(model_id, "FAILED")
        raise
    return model_id


def log_native(store: Store, run_id: str, content: bytes, file: str, loader: str) -> str:
    """Log a model file to the run, once, as a model that `mlflow.pyfunc` loads by the module `loader`; its id."""
    digest = hashlib.sha256(content).hexdigest()
    for known in ready_models(store, run_id, NATIVE_NAME):
        if known.tags.get(_CONTENT_TAG) == digest:
            return str(known.model_id)

    def write(directory: Path, logged: Any) -> None:
        import mlflow.pyfunc
        from mlflow.models import infer_signature

        import lcml

        module = import_module(loader)
        with tempfile.TemporaryDirectory(prefix="lcml-") as temporary:
            path = Path(temporary) / file
            path.write_bytes(content)
            example = module.load_example(str(path))
            answer = module._load_pyfunc(str(path)).predict(example)
            with quiet(), requirements_unchecked():
                untraced(mlflow.pyfunc.save_model)(
                    str(directory),
                    loader_module=loader,
                    data_path=str(path),
                    mlflow_model=described(run_id, logged),
                    signature=infer_signature(example, answer),
                    input_example=example,
                    model_config=CONFIG,
                    pip_requirements=[f"lcml=={lcml.__version__}"],
                )

    return log_model(store, run_id, NATIVE_NAME, write, {}, {_CONTENT_TAG: digest})


@contextlib.contextmanager
def requirements_unchecked() -> Iterator[None]:
    """Without MLflow's look at the files of all installed packages, a second or more: it could only warn that they are
    not what they are."""
    from mlflow.utils import environment

    functions, name = vars(environment), "warn_dependency_requirement_mismatches"
    with _alone:
        check = functions.get(name)
        functions[name] = lambda requirements: None
        try:
            yield
        finally:
            functions[name] = check


def untraced(function: Callable[..., Any]) -> Any:
    """A function of MLflow's below the decorator that switches tracing off, for which MLflow before 3.15 opens, and so
    makes, the database of the directory it is in."""
    return inspect.unwrap(function)


def described(run_id: str, logged: Any) -> Any:
    """MLflow's description of the logged model, still without flavours."""
    from mlflow.models import Model

    return Model(
        artifact_path=logged.artifact_location, run_id=run_id, model_uuid=logged.model_id, model_id=logged.model_id
    )


def ready_models(store: Store, run_id: str, name: str) -> list[Any]:
    """The models of that name that were logged to the run, the last one last."""
    run = store.client.get_run(run_id)
    outputs = run.outputs.model_outputs if run.outputs else []
    models = [store.client.get_logged_model(output.model_id) for output in outputs]
    found = [model for model in models if model.name == name and str(model.status) == "READY"]
    return sorted(found, key=lambda model: model.creation_timestamp)
