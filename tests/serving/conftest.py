"""One service for the tests that only ask: models `plain`, `words` and `bytes` in a repository."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from tests.serving.onnx_models import write_model
from tests.serving.running import Running, start


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """plain (versions 1 and 3, explains), words (texts as labels, float64, names), bytes (uint8), divide (0/0)."""
    root = tmp_path_factory.mktemp("repository")
    write_model(root / "plain/1/model.onnx", bias=[0.0, 0.0, 9.0])
    write_model(root / "plain/3/model.onnx", explain=True)
    write_model(
        root / "words/1/model.onnx",
        classes=["low", "mid", "high"],
        input_type=TensorProto.DOUBLE,
        feature_names=["a", "b", "c", "d"],
    )
    write_model(root / "bytes/1/model.onnx", input_type=TensorProto.UINT8)
    write_model(root / "divide/1/model.onnx", divide=True)
    (root / "plain/config.pbtxt").write_text('name: "plain"\n')
    (root / "plain/notes").mkdir()
    return root


@pytest.fixture(scope="session")
def service(repository: Path) -> Iterator[Running]:
    """The running service; at the end it must stop with exit code 0 and without an unexpected error in its log."""
    running = start(repository, "--default-model", "plain", "--max-rows", "100", "--max-body-bytes", "200000")
    yield running
    assert running.stop() == 0
    assert [event for event in running.events if "traceback" in event] == []


@pytest.fixture
def launch() -> Iterator[Callable[..., Running]]:
    """Start services that are stopped after the test."""
    started: list[Running] = []

    def start_one(*arguments: Any, **more: Any) -> Running:
        started.append(start(*arguments, **more))
        return started[-1]

    yield start_one
    for running in started:
        running.stop()
