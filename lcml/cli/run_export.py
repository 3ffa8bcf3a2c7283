"""What `lcml export` and `lcml train --export` do once their options are known. Heavy to import."""

import dataclasses
import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lcml.cli.common import require_packages
from lcml.explain.names import known_names
from lcml.formats import load_model
from lcml.model.model import LogisticCircuit
from lcml.runs.pyfunc import input_example
from lcml.runs.records import MODEL_ARTIFACT
from lcml.tracking import download_artifact, find_run, log_onnx, store_uri
from lcml.tracking.registry import EXPLANATION_FILE, LOADER_FILE, MODEL_FILE, REPORT_FILE

if TYPE_CHECKING:
    from lcml_export import ExportReport


@dataclass(frozen=True)
class Exported:
    """A model and what was written of it; the run and the logged model where it went to MLflow."""

    model: LogisticCircuit
    report: "ExportReport"
    run_id: str | None = None
    model_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {**self.report.as_json(), "run_id": self.run_id, "model_id": self.model_id}

    def lines(self) -> list[str]:
        """The report of the export, and what to do next with a model that was logged."""
        if self.run_id is None:
            return self.report.lines()
        return [
            *self.report.lines(),
            f"Logged to run {self.run_id} as models:/{self.model_id}",
            f"Register it with: lcml register {self.run_id} --name NAME --alias champion",
        ]


def require_exporter() -> None:
    """MissingDependencyError where the extra `export` is missing."""
    require_packages("onnx", "onnxruntime", extra="export", purpose="export to ONNX")


def export_file(source: str | Path, output: str | Path, **options: Any) -> Exported:
    """Export a model file; options: those of `lcml_export.export_model`. The name is by default the model file's."""
    require_exporter()
    from lcml_export import export_model

    source = Path(source)
    model = load_model(source)
    report = export_model(
        model,
        output,
        feature_names=known_names(model),
        source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        **{"name": source.stem, **options},
    )
    return Exported(model, report)


def export_run(run: str, tracking_uri: str | None, **options: Any) -> Exported:
    """Export the model of the run with that id or name, and log the result to it."""
    require_exporter()
    uri = store_uri(tracking_uri)
    run_id = find_run(run, uri).run_id
    with tempfile.TemporaryDirectory(prefix="lcml-") as directory:
        source = download_artifact(run_id, MODEL_ARTIFACT, uri, Path(directory))
        exported = log_exported(export_file(source, Path(directory) / MODEL_FILE, **options), run_id, uri)
    return dataclasses.replace(exported, report=_as_logged(exported.report))


def log_exported(exported: Exported, run_id: str, uri: str) -> Exported:
    """Log an export that was made to a file to a run, with its sidecars."""
    from lcml_export import pyfunc

    report, path = exported.report, exported.report.path
    files = {MODEL_FILE: path.read_bytes(), REPORT_FILE: json.dumps(_as_logged(report).as_json(), indent=2).encode()}
    files[LOADER_FILE] = Path(pyfunc.__file__).read_bytes()
    sidecar = path.with_name(f"{path.stem}.explain.json")
    if sidecar.exists():
        files[EXPLANATION_FILE] = sidecar.read_bytes()
    example = input_example(exported.model, report.input_dtype, matrix=report.inputs == "matrix")
    params = {name: getattr(report, name) for name in ("profile", "input_dtype", "opset", "precision")}
    return dataclasses.replace(
        exported, run_id=run_id, model_id=log_onnx(run_id, files, example, params=params, uri=uri)
    )


def _as_logged(report: "ExportReport") -> "ExportReport":
    """The report with the path that the model has among the files logged, not the one it was exported to."""
    return dataclasses.replace(report, path=Path(MODEL_FILE))
