"""Traces, received over OTLP by a collector of this test and read by the protocol's own messages."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tritonclient import grpc as triton

import lcml_serving.tracing
from lcml_serving.errors import SettingsError
from lcml_serving.service import tracing_of
from tests.serving.onnx_models import X, write_model
from tests.serving.running import Running, infer_body

STAGES = ["decode", "encode", "run", "wait"]


class Collector:
    """Takes spans on loopback; `answers` is awaited before each answer."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                collector.asked.set()
                collector.answers.wait()
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def environ(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}"}

    def spans(self) -> list[Any]:
        resources = [resource for request in self.requests for resource in request.resource_spans]
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.answers.set()
    collector.server.shutdown()
    collector.server.server_close()


def _about(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def _caller(number: int, sampled: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{number:032x}-{number + 1:016x}-{sampled}"}


def test_spans_are_children_of_the_callers(
    launch: Callable[..., Running], collector: Collector, tmp_path: Path
) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"), "--grpc-port", "0", environ=collector.environ)
    url = "/v2/models/iris/infer"
    assert running.post(url, infer_body(X), _caller(10)).status == 200
    assert running.post("/invocations", {"inputs": X[:1]}, {"Content-Type": "application/json"}).status == 200
    assert running.post(url, infer_body(X), _caller(20, sampled="00")).status == 200
    assert running.post(url, {"inputs": []}, _caller(30)).status == 400
    assert running.get("/v2/models/iris", _caller(50)).status == 200
    with triton.InferenceServerClient(f"127.0.0.1:{running.wait_for('listening')['grpc_port']}") as client:
        tensor = triton.InferInput("features", [2, 4], "FP32")
        tensor.set_data_from_numpy(np.array(X[:2], np.float32))
        assert client.infer("iris", [tensor], headers=_caller(40)).as_numpy("label").tolist() == [10, 30]
    assert running.stop() == 0  # which sends what is left
    (resource,) = {tuple(_about(each.resource).items()) for r in collector.requests for each in r.resource_spans}
    assert ("service.name", "lcml_serving") in resource
    spans = collector.spans()
    found: dict[str, list[Any]] = {}
    for span in spans:
        found.setdefault(span.trace_id.hex(), []).append(span)
    assert len(found) == 4
    for number, name, rows in ((10, "POST infer", 3), (40, "gRPC ModelInfer", 2)):
        request, *parts = sorted(found[f"{number:032x}"], key=lambda span: span.start_time_unix_nano)
        assert (request.name, request.parent_span_id.hex()) == (name, f"{number + 1:016x}")
        assert sorted(part.name for part in parts) == STAGES
        assert {part.parent_span_id for part in parts} == {request.span_id}
        assert [part.name for part in parts] == ["decode", "wait", "run", "encode"]  # by their beginnings
        ends = [part.end_time_unix_nano for part in parts]
        assert ends == sorted(ends)
        assert ends[-1] <= request.end_time_unix_nano
        model = {"lcml.model": "iris", "lcml.version": "1"}
        assert all(model.items() <= _about(part).items() for part in parts)
        assert _about(parts[2]) == {**model, "lcml.rows": rows, "lcml.batch_rows": rows}
        assert _about(request).items() >= _about(parts[2]).items()
    refused = {span.name: span for span in found[f"{30:032x}"]}
    assert set(refused) == {"POST infer", "decode"}
    assert _about(refused["POST infer"])["http.response.status_code"] == 400
    (own,) = (span for span in spans if span.name == "POST invocations")
    assert own.parent_span_id == b""  # the root of a trace of its own


def test_a_collector_that_is_not_there_disturbs_nobody(launch: Callable[..., Running], tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = closed.server_port
    environ = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{port}/", "OTEL_BSP_SCHEDULE_DELAY": "1"}
    environ |= {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1"}
    running = launch(write_model(tmp_path / "iris.onnx"), environ=environ)
    for _ in range(3):
        assert running.post("/v2/models/iris/infer", infer_body(X)).status == 200
    assert running.stop() == 0
    assert [event for event in running.events if event["logger"] == "lcml_serving" and "traceback" in event] == []
    assert [event["asked"] for event in running.events if "http/protobuf alone" in event["message"]] == ["grpc"]


def test_the_end_does_not_wait_for_a_collector(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    collector.answers.clear()  # it takes spans, and never answers
    monkeypatch.setattr(lcml_serving.tracing, "_FLUSH_SECONDS", 0.05)
    for key, value in collector.environ.items():
        monkeypatch.setenv(key, value)
    tracing = lcml_serving.tracing.Tracing()
    with tracing.request("POST", {}):
        pass
    tracing.close()
    assert collector.asked.wait(30)
    assert not collector.answers.is_set()


def test_traces_are_asked_for_by_opentelemetrys_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    assert tracing_of({}) is None
    assert tracing_of({**asked, "OTEL_SDK_DISABLED": "true"}) is None
    assert tracing_of({**asked, "OTEL_TRACES_EXPORTER": "none"}) is None
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    with pytest.raises(SettingsError, match=r"variables OTEL_\*: max_export_batch_size must be"):
        tracing_of(asked)
