"""From a run to its ONNX model in MLflow's registry, and to the programs that read it there: MLflow's own and ours."""

import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from lcml.circuits.circuit import initial_circuit
from lcml.circuits.vtree import balanced
from lcml.cli import app
from lcml.errors import DataError, TrackingError
from lcml.formats import save_model
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.model.model import LogisticCircuit
from lcml.runs.pyfunc import PyfuncModel
from lcml.tracking import MlflowTracker, fetch_onnx, log_onnx, register, replay
from lcml_export import export_model
from lcml_export.pyfunc import OnnxModel, _column
from tests.cli.test_export_commands import serve
from tests.export.tables import ROWS, table_model
from tests.forked import Forked
from tests.tracking.stores import DATA, Server, address, free_port, rows, until

NAMES = ["height", "width", "weight", "age"]
QUICK = ("--rounds", "1", "--round-iterations", "3", "--final-iterations", "3", "--l2-path", "0.1", "--quiet")


def made(*arguments: object) -> Any:
    """What a command prints with --json."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def small_model(encoder: Any, classes: Any, seed: int, names: Sequence[str] = NAMES) -> LogisticCircuit:
    generator, circuit = np.random.default_rng(seed), initial_circuit(balanced(4))
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=encoder,
        classes=classes,
        element_weights=generator.normal(size=(3, circuit.n_elements)),
        literal_weights=generator.normal(size=(3, 8)),
        bias=np.zeros(3),
        provenance={"data": {"feature_names": list(names)}},
    )


def tracked(uri: str, model: LogisticCircuit, directory: Path, name: str = "run") -> str:
    """A finished run with that model; its id."""
    save_model(model, directory / f"{name}.lcml")
    tracker = MlflowTracker(uri, flush_seconds=0.01)
    tracker.start(name, {"seed": 7}, {}, DATA)
    tracker.metrics({"final/test_accuracy": 0.75, "valid/accuracy": 0.5}, 0)
    tracker.artifact("model.lcml", directory / f"{name}.lcml", loader="lcml.runs.pyfunc")
    tracker.finish("FINISHED")
    assert tracker.run_id is not None
    return tracker.run_id


@pytest.fixture(scope="module")
def model() -> LogisticCircuit:
    return small_model(ScaleEncoder(np.zeros(4), np.array([200.0, 50.0, 100.0, 120.0])), ("cat", "dog", "owl"), 0)


@pytest.fixture(scope="module")
def animals() -> Any:
    return np.random.default_rng(1).uniform(0, 120, (9, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def store(empty_database: Path, tmp_path_factory: pytest.TempPathFactory, model: LogisticCircuit) -> dict[str, Any]:
    """A run `zoo` whose model was exported with explanations and registered as animals@champion."""
    directory = tmp_path_factory.mktemp("registry")
    (directory / "mlruns").mkdir()
    shutil.copy(empty_database, directory / "mlruns" / "mlflow.db")
    uri = address(directory / "mlruns" / "mlflow.db")
    run_id = tracked(uri, model, directory, "zoo")
    exported = made("export", "--run", "zoo", "--explain", "--tracking-uri", uri)
    version = made("register", "zoo", "--name", "animals", "--alias", "champion", "--tracking-uri", uri)
    assert (exported["run_id"], exported["path"]) == (run_id, "model.onnx")
    assert version == {
        "name": "animals",
        "version": 1,
        "alias": "champion",
        "model_id": exported["model_id"],
        "run_id": run_id,
        "reference": "models:/animals@champion",
    }
    return {"uri": uri, "directory": directory, **version}


@pytest.fixture
def mlflow_here(store: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store["uri"])


def native_model(store: dict[str, Any]) -> object:
    """The id of the model of the run that is no export."""
    query = "select model_id from logged_models where name = 'lcml' and source_run_id = ?"
    return rows(store["directory"] / "mlruns" / "mlflow.db", query, store["run_id"])[0][0]


def files_of(store: dict[str, Any]) -> Path:
    return Path(store["directory"], "mlruns", "models", store["model_id"], "artifacts")


def test_a_logged_model_is_whole(store: dict[str, Any]) -> None:
    from mlflow.models import Model

    directory = files_of(store)
    described = Model.load(str(directory)).to_dict()
    columns = json.loads(described["signature"]["inputs"])
    assert [(column["name"], column["type"]) for column in columns] == [(name, "double") for name in NAMES]
    outputs = {part["name"]: part["tensor-spec"]["shape"] for part in json.loads(described["signature"]["outputs"])}
    assert (outputs["label"], outputs["probabilities"]) == ([-1], [-1, 3])
    assert described["flavors"]["onnx"]["providers"] == ["CPUExecutionProvider"]
    assert (described["run_id"], described["model_id"]) == (store["run_id"], store["model_id"])
    example = json.loads((directory / "input_example.json").read_text())
    assert example == {"columns": NAMES, "data": [[0, 0, 0, 0], [200, 50, 100, 120]]}
    assert json.loads((directory / "model.explain.json").read_text())["conditions"][0] == "height near 200"
    report = json.loads((directory / "model.report.json").read_text())
    assert (report["path"], report["n_bytes"]) == ("model.onnx", (directory / "model.onnx").stat().st_size)
    assert not list(directory.glob("*.data"))
    query = "select param_key, param_value from logged_model_params where model_id = ?"
    params = rows(store["directory"] / "mlruns" / "mlflow.db", query, store["model_id"])
    given = [("input_dtype", "float32"), ("opset", "18"), ("precision", "float32"), ("profile", "auto")]
    assert sorted(params) == [*given, ("seed", "7")]
    query = "select metric_name, metric_value, dataset_name from logged_model_metrics where model_id = ?"
    figures = rows(store["directory"] / "mlruns" / "mlflow.db", query, store["model_id"])
    assert figures == [("final/test_accuracy", 0.75, "digits")]
    query = "select tag_value from logged_model_tags where tag_key = 'mlflow.modelVersions' and model_id = ?"
    ((versions,),) = rows(store["directory"] / "mlruns" / "mlflow.db", query, store["model_id"])
    assert json.loads(str(versions)) == [{"name": "animals", "version": "1"}]


@pytest.mark.usefixtures("mlflow_here")
def test_mlflow_loads_the_onnx_model(model: LogisticCircuit, animals: Any) -> None:
    import mlflow.onnx
    import onnxruntime

    proto = mlflow.onnx.load_model("models:/animals@champion")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(["label"], {"features": animals})[0].tolist() == model.predict(animals).tolist()


@pytest.mark.usefixtures("mlflow_here")
@pytest.mark.parametrize("kind", ["exported", "native"])
def test_mlflow_finds_the_columns_of_a_frame_by_name(
    kind: str, store: dict[str, Any], model: LogisticCircuit, animals: Any
) -> None:
    import mlflow.pyfunc
    import pandas
    from mlflow.exceptions import MlflowException

    uri = "models:/animals/1" if kind == "exported" else f"models:/{native_model(store)}"
    loaded = mlflow.pyfunc.load_model(uri)
    frame = pandas.DataFrame(animals.astype(float), columns=NAMES)
    for table in (frame, frame.astype("float32"), frame[NAMES[::-1]], frame[NAMES[2:] + NAMES[:2]].assign(more=1.0)):
        found = loaded.predict(table)
        assert found["label"].tolist() == model.predict(animals).tolist()
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(animals), atol=1e-6)
    with pytest.raises(MlflowException, match=r"missing inputs \['weight'\]"):
        loaded.predict(frame.drop(columns="weight"))
    with pytest.raises(MlflowException, match=r"missing inputs \['height', 'width', 'weight', 'age'\]"):
        loaded.predict(animals)
    labels = mlflow.pyfunc.load_model(uri, model_config={"output": "label"}).predict(frame)
    assert labels.tolist() == model.predict(animals).tolist()
    with pytest.raises(ValueError, match="output 'score': expected one of label, probabilities"):
        mlflow.pyfunc.load_model(uri, model_config={"output": "score"})


@pytest.mark.parametrize("kind", ["onnx", "lcml"])
@pytest.mark.parametrize("input_dtype", ["float32", "uint8"])
def test_mlflow_refuses_a_frame_where_columns_have_no_names(
    kind: str, input_dtype: str, database: Path, tmp_path: Path, animals: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow.pyfunc
    import pandas
    from mlflow.exceptions import MlflowException

    monkeypatch.setenv("MLFLOW_TRACKING_URI", address(database))
    names = ["pixel_0_0", "pixel_0_1", "pixel_1_0", "pixel_1_1"]
    image = small_model(BooleanEncoder(np.full(4, 60.5)), (7, 8, 9), 1, names)
    run_id = tracked(address(database), image, tmp_path)
    if kind == "onnx":
        made("export", "--run", run_id, "--input-dtype", input_dtype, "--tracking-uri", address(database))
    query = "select model_id from logged_models where name = ?"
    loaded = mlflow.pyfunc.load_model(f"models:/{rows(database, query, kind)[0][0]}")
    pixels = np.rint(animals).astype("uint8" if (kind, input_dtype) == ("onnx", "uint8") else float)
    for given in (pixels, {"features": pixels}):
        assert loaded.predict(given)["label"].tolist() == image.predict(pixels).tolist()
    with pytest.raises(MlflowException, match=r"missing inputs \['features'\]"):
        loaded.predict(pandas.DataFrame(pixels, columns=names))


def test_models_logged_without_a_signature_find_columns_by_name_too(model: LogisticCircuit, animals: Any) -> None:
    import pandas

    frame = pandas.DataFrame(animals, columns=NAMES)
    for table in (animals, frame, frame[NAMES[::-1]]):
        assert list(PyfuncModel(model, "label").predict(table)) == model.predict(animals).tolist()
    with pytest.raises(DataError, match="the table has no column 'weight'; expected the 4 columns of training"):
        PyfuncModel(model).predict(frame.drop(columns="weight"))


def test_a_byte_is_a_whole_number(tmp_path: Path, model: LogisticCircuit) -> None:
    export_model(model, tmp_path / "model.onnx", input_dtype="uint8")
    loaded = OnnxModel(str(tmp_path / "model.onnx"), None)
    with pytest.raises(ValueError, match="the model reads whole numbers from 0 to 255"):
        loaded.predict(np.array([[0.0, 255.0, 256.0, 3.0]]))


def test_a_table_is_read_by_names_and_spans_as_days(tmp_path: Path) -> None:
    import pandas

    export_model(table_model(), tmp_path / "table.onnx")
    loaded, frame = OnnxModel(str(tmp_path / "table.onnx"), "label"), pandas.DataFrame(ROWS)
    with pytest.raises(ValueError, match="columns are missing: income"):
        loaded.predict(frame.drop(columns="income"))
    with pytest.raises(ValueError, match="give it a data frame"):
        loaded.predict(np.zeros((1, 4)))
    spans = pandas.Series([pandas.Timedelta(hours=36), pandas.NaT])
    assert _column(spans, "tensor(double)").ravel()[0] == 1.5
    zoned = pandas.Series([pandas.Timestamp("1970-01-02T01:00", tz="Europe/Oslo")])
    assert _column(zoned, "tensor(double)").ravel().tolist() == [1.0]


def test_a_model_sent_twice_is_logged_once(database: Path, tmp_path: Path, model: LogisticCircuit) -> None:
    save_model(model, tmp_path / "model.lcml")
    tracker = MlflowTracker(address(database), flush_seconds=0.01)
    tracker.start("run", {}, {}, DATA)
    tracker.artifact("model.lcml", tmp_path / "model.lcml", loader="lcml.runs.pyfunc")
    assert tracker.spool_path is not None
    spool = tmp_path / "copy" / tracker.spool_path.name
    shutil.copytree(tracker.spool_path.parent, spool.parent)
    tracker.finish("FINISHED")
    replay(spool, address(database))
    assert rows(database, "select name, status from logged_models") == [("lcml", 2)]  # READY


def test_no_time_goes_into_a_look_at_all_installed_packages(
    database: Path, tmp_path: Path, model: LogisticCircuit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's, which could but warn; others' models are looked at as before."""
    from mlflow.utils import environment

    looked = list[object]()
    monkeypatch.setattr(environment, "warn_dependency_requirement_mismatches", looked.append)
    made("export", "--run", tracked(address(database), model, tmp_path), "--tracking-uri", address(database))
    assert rows(database, "select name, status from logged_models order by name") == [("lcml", 2), ("onnx", 2)]
    assert looked == []
    environment._process_pip_requirements(["numpy"])
    assert len(looked) == 1


@pytest.fixture(params=["models:/animals@champion", "native"])
def mlflow_server(store: dict[str, Any], request: pytest.FixtureRequest) -> Iterator[str]:
    """`mlflow models serve` of the registered model, or of the one that the run has without an export."""
    port, log = free_port(), store["directory"] / "serve.log"
    model = request.param if request.param != "native" else f"models:/{native_model(store)}"
    command = ["-m", "mlflow", "models", "serve", "--model-uri", model]
    command += ["--env-manager", "local", "--port", str(port), "--workers", "1"]
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": store["uri"],
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with log.open("wb") as file:
        process = Forked(*command, stdout=file.fileno(), stderr=file.fileno(), env=environment, session=True)

    def answers() -> bool | None:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=5) as answer:
                return bool(answer.status == 200) or None
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    try:
        until(answers, "mlflow models serve")
        yield f"http://127.0.0.1:{port}/invocations"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def test_mlflow_serves_it(mlflow_server: str, model: LogisticCircuit, animals: Any) -> None:
    values = animals.tolist()
    records = [dict(zip(NAMES, row, strict=True)) for row in values]
    for body in (
        {"inputs": dict(zip(NAMES, animals.T.tolist(), strict=True))},
        {"instances": records},
        {"dataframe_split": {"columns": NAMES[::-1], "data": animals[:, ::-1].tolist()}},
        {"dataframe_records": records},
    ):
        request = urllib.request.Request(mlflow_server, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)["predictions"]
        assert found["label"] == model.predict(animals).tolist()
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(animals), atol=1e-6)


def test_our_service_serves_it_with_its_explanations(
    store: dict[str, Any], model: LogisticCircuit, animals: Any
) -> None:
    service = serve("models:/animals@champion", "--tracking-uri", store["uri"])
    try:
        (entry,) = service.post("/v2/repository/index").json()
        assert (entry["name"], entry["version"], entry["state"]) == ("animals", "1", "READY")
        tensor = {"name": "features", "datatype": "FP32", "shape": [9, 4], "data": animals.tolist()}
        answer = service.post("/v2/models/animals/versions/1/explain", {"inputs": [tensor]}).json()
        explained = answer["explanations"]
    finally:
        assert service.stop() == 0
    assert [row["label"] for row in explained] == model.predict(animals).tolist()
    logits = model.logits(animals, precision="float64").max(axis=1)
    np.testing.assert_allclose([row["logit"] for row in explained], logits, atol=1e-5)
    assert set(explained[0]["contributions"][0]) == {"index", "condition", "contribution"}


def test_the_last_export_becomes_the_next_version(database: Path, tmp_path: Path) -> None:
    uri = address(database)
    run_id = tracked(uri, small_model(BooleanEncoder(np.full(4, 99.6)), (7, 8, 9), 1), tmp_path)
    first = made("export", "--run", run_id, "--tracking-uri", uri)
    assert register(run_id, "numbers", "champion", uri).version == 1
    second = made("export", "--run", run_id[:8], "--input-dtype", "uint8", "--logits", "--tracking-uri", uri)
    version = register(run_id, "numbers", "champion", uri)
    assert (version.version, version.model_id) == (2, second["model_id"])
    assert first["model_id"] != second["model_id"]

    target = fetch_onnx("models:/numbers@champion", tmp_path / "new", uri)
    assert target == tmp_path / "new" / "numbers" / "2" / "model.onnx"
    assert [path.name for path in target.parent.iterdir()] == ["model.onnx"]
    logged = database.parent / "models" / second["model_id"] / "artifacts"
    assert target.read_bytes() == (logged / "model.onnx").read_bytes()
    assert json.loads((logged / "input_example.json").read_text())["data"] == [[99] * 4, [101] * 4]
    assert fetch_onnx("models:/numbers/1", tmp_path / "old", uri).parent.name == "1"
    query = "select destination_id from inputs where source_id = ? and source_type = 'RUN_OUTPUT' order by rowid"
    assert rows(database, query, run_id)[1:] == [(first["model_id"],), (second["model_id"],)]  # behind the native one


def test_training_exports_to_its_run(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    uri = address(database)
    found = made("train", "iris", "--export", "--tracking-uri", uri, *QUICK)
    assert found["onnx_path"] == "iris.onnx"
    assert register(found["run_id"], "iris", None, uri).model_id == found["onnx_model_id"]
    fetched = fetch_onnx("models:/iris/1", tmp_path / "fetched", uri)
    assert fetched.read_bytes() == (tmp_path / "iris.onnx").read_bytes()
    query = "select count(*) from params where run_uuid = ? and key = 'export'"
    assert rows(database, query, found["run_id"]) == [(0,)]


def test_over_a_server(server: Server, model: LogisticCircuit, tmp_path: Path) -> None:
    run_id = tracked(server.uri, model, tmp_path)
    exported = made("export", "--run", run_id, "--explain", "--tracking-uri", server.uri)
    register(run_id, "animals", "champion", server.uri)
    target = fetch_onnx("models:/animals@champion", tmp_path / "fetched", server.uri)
    assert target.stat().st_size == exported["n_bytes"]
    assert target.with_name("model.explain.json").is_file()


def test_what_is_not_there_is_refused(store: dict[str, Any], tmp_path: Path) -> None:
    uri, run_id = store["uri"], tracked(store["uri"], small_model(BooleanEncoder(np.ones(4)), (1, 2, 3), 2), tmp_path)
    for name, alias, message in (
        ("a/b", None, "name 'a/b': expected letters"),
        ("..", None, r"name '\.\.': expected letters"),
        ("other", "v3", "alias 'v3': expected letters"),
        ("other", "Latest", "alias 'Latest': expected"),
        ("other", None, f"run {run_id} has no ONNX model; log one with `lcml export --run {run_id}`"),
    ):
        with pytest.raises(TrackingError, match=message):
            register(run_id, name, alias, uri)
    for reference, message in (
        ("models:/animals", "expected models:/NAME@ALIAS or models:/NAME/VERSION"),
        ("models:/../1", "expected models:/NAME@ALIAS or models:/NAME/VERSION"),
        ("models:/animals@second", "alias second not found"),
        ("models:/animals/99", "version=99"),
        ("models:/other/1", "name=other"),
    ):
        with pytest.raises(TrackingError, match=message):
            fetch_onnx(reference, tmp_path / "fetched", uri)
    assert not (tmp_path / "fetched").exists()
    database = store["directory"] / "mlruns" / "mlflow.db"
    assert rows(database, "select name from registered_models") == [("animals",)]


def test_a_model_that_does_not_run_is_not_kept(database: Path, tmp_path: Path, model: LogisticCircuit) -> None:
    run_id = tracked(address(database), model, tmp_path)
    with pytest.raises(TrackingError, match="tracking store"):
        log_onnx(run_id, {"model.onnx": b"broken"}, {"features": np.zeros((2, 4))}, uri=address(database))
    assert rows(database, "select status from logged_models where name = 'onnx'") == [
        (3,)
    ]  # FAILED, in MLflow's numbers
    with pytest.raises(TrackingError, match="has no ONNX model"):
        register(run_id, "animals", None, address(database))
