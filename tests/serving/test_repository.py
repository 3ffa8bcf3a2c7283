"""Reload by request, by SIGHUP and by polling; what cannot be loaded leaves what is served."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.serving.onnx_models import X, write_model
from tests.serving.running import Running, infer_body

LOAD = "/v2/repository/models/iris/load"
THIRD = [0.0, 0.0, 99.0]  # with this bias, every row is of the third class


def _labels(running: Running, version: str = "") -> list[int]:
    path = f"/v2/models/iris{version and '/versions/' + version}/infer"
    answer = running.post(path, infer_body(X))
    assert answer.status == 200, answer.body
    labels: list[int] = answer.json()["outputs"][0]["data"]
    return labels


def _states(running: Running) -> list[tuple[str, str, str]]:
    return [(e["version"], e["state"], e["reason"] and "why") for e in running.get("/v2/repository/index").json()]


def test_a_load_request_takes_new_versions_and_drops_old_ones(launch: Callable[..., Running], tmp_path: Path) -> None:
    write_model(tmp_path / "iris/1/model.onnx")
    running = launch(tmp_path)
    write_model(tmp_path / "iris/10/model.onnx", bias=THIRD)
    assert _labels(running) == [10, 30, 20]
    assert running.post(LOAD, {}).status == 200
    assert _states(running) == [("1", "READY", ""), ("10", "READY", "")]
    assert (_labels(running), _labels(running, "1")) == ([30] * 3, [10, 30, 20])
    shutil.rmtree(tmp_path / "iris/10")
    assert running.post(LOAD).status == 200
    assert _labels(running) == [10, 30, 20]
    assert running.get("/v2/models/iris/versions/10").status == 404


def test_a_broken_file_leaves_the_old_model(launch: Callable[..., Running], tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris/1/model.onnx")
    running = launch(tmp_path)
    path.write_bytes(b"broken")
    answer = running.post(LOAD, {})
    assert answer.status == 409
    assert "the versions loaded before stay" in answer.json()["error"]
    assert _states(running) == [("1", "READY", "why")]
    assert _labels(running) == [10, 30, 20]
    write_model(path, bias=THIRD)
    assert running.post(LOAD, {}).status == 200
    assert (_states(running), _labels(running)) == ([("1", "READY", "")], [30] * 3)
    assert [event["level"] for event in running.events if event["message"] == "model not loaded"] == ["error"]


def test_a_broken_new_version_is_listed_but_not_served(launch: Callable[..., Running], tmp_path: Path) -> None:
    write_model(tmp_path / "iris/1/model.onnx")
    running = launch(tmp_path)
    (tmp_path / "iris/2").mkdir()
    (tmp_path / "iris/2/model.onnx").write_bytes(b"broken")
    assert running.post(LOAD, {}).status == 409
    assert _states(running) == [("1", "READY", ""), ("2", "UNAVAILABLE", "why")]
    ready = running.post("/v2/repository/index", {"ready": True}).json()
    assert [entry["version"] for entry in ready] == ["1"]
    assert _labels(running) == [10, 30, 20]
    shutil.rmtree(tmp_path / "iris/2")
    running.signal(signal.SIGHUP)
    running.post(LOAD, {})
    assert _states(running) == [("1", "READY", "")]


def test_a_broken_model_that_was_never_served_is_forgotten_with_its_file(
    launch: Callable[..., Running], tmp_path: Path
) -> None:
    write_model(tmp_path / "iris/1/model.onnx")
    running = launch(tmp_path)
    for asks in (False, True):
        (tmp_path / "rose/1").mkdir(parents=True)
        (tmp_path / "rose/1/model.onnx").write_bytes(b"broken")
        assert running.post("/v2/repository/models/rose/load", {}).status == 409
        assert len(running.post("/v2/repository/index", {}).json()) == 2
        shutil.rmtree(tmp_path / "rose")
        if asks:
            assert running.post("/v2/repository/models/rose/load", {}).status == 404
        else:
            running.signal(signal.SIGHUP)
            running.post(LOAD, {})
        deadline = time.monotonic() + 10
        while len(running.post("/v2/repository/index", {}).json()) > 1:
            assert time.monotonic() < deadline


def test_sighup_finds_new_and_missing_models(launch: Callable[..., Running], tmp_path: Path) -> None:
    write_model(tmp_path / "iris/1/model.onnx")
    write_model(tmp_path / "rose/1/model.onnx")
    running = launch(tmp_path)
    shutil.rmtree(tmp_path / "rose")
    write_model(tmp_path / "tulip/1/model.onnx")
    running.signal(signal.SIGHUP)
    running.wait_for("model loaded", model="tulip")
    running.wait_for("model unloaded", model="rose")
    assert running.post("/v2/models/rose/infer", infer_body(X)).status == 404
    assert running.post("/v2/models/tulip/infer", infer_body(X)).status == 200
    # the unchanged model kept its session
    assert len([e for e in running.events if e["message"] == "model loaded" and e["model"] == "iris"]) == 1


def test_polling_takes_a_replaced_file(launch: Callable[..., Running], tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    running = launch(path, "--poll-seconds", "0.05")
    write_model(path, bias=THIRD)
    running.wait_for("model loaded", count=2)
    deadline = time.monotonic() + 10
    while _labels(running) != [30] * 3:
        assert time.monotonic() < deadline
    path.unlink()
    running.wait_for("reload failed")
    assert _labels(running) == [30] * 3


def test_polling_outlives_a_sidecar_that_is_nested_too_deeply(launch: Callable[..., Running], tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx", explain=True)
    running = launch(path, "--poll-seconds", "0.05")
    (tmp_path / "iris.explain.json").write_text("[" * 100_000)
    running.wait_for("model not loaded")
    assert _labels(running) == [10, 30, 20]
    write_model(path, explain=True, bias=THIRD)
    running.wait_for("model loaded", count=2)


def test_models_cannot_be_sent_to_the_service(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"))
    answer = running.post(LOAD, {"parameters": {"file:1/model.onnx": "AAAA"}})
    assert answer.status == 400
    assert running.post(LOAD, b"[]").status == 400
    assert running.post("/v2/repository/index", {"ready": "yes"}).status == 400


def test_several_paths_are_served_together(launch: Callable[..., Running], tmp_path: Path) -> None:
    write_model(tmp_path / "repository/rose/2/model.onnx")
    running = launch(write_model(tmp_path / "iris.onnx"), tmp_path / "repository")
    assert [(e["name"], e["version"]) for e in running.get("/v2/repository/index").json()] == [
        ("iris", "1"),
        ("rose", "2"),
    ]
