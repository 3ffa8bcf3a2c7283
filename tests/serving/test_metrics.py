"""/metrics, read by Prometheus' own parser."""

from collections.abc import Callable
from pathlib import Path

from lcml_serving.metrics import Metrics
from tests.serving.onnx_models import X, write_model
from tests.serving.running import Running, infer_body


def test_two_services_of_one_process_count_for_themselves() -> None:
    first, second = Metrics(), Metrics()
    first.in_flight.set(2)
    assert b"lcml_requests_in_flight 2.0" in first.render()
    assert b"lcml_requests_in_flight 0.0" in second.render()
    assert b"_created" not in first.render()


def test_what_the_service_counts(launch: Callable[..., Running], tmp_path: Path) -> None:
    from prometheus_client import parser

    running = launch(write_model(tmp_path / "iris.onnx"))
    for _ in range(3):
        running.post("/v2/models/iris/infer", infer_body(X))
    running.post("/v2/models/iris/infer", infer_body([]))
    running.post("/v2/models/iris/infer", {})
    for name in ("rose", "tulip"):  # names that are not served must not become labels
        running.post(f"/v2/models/{name}/infer", infer_body(X))
    running.get("/nowhere")
    running.post("/v2/repository/models/iris/load")
    answer = running.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
    iris = (("model", "iris"), ("version", "1"))

    def requests(code: str, endpoint: str, *labels: tuple[str, str]) -> float:
        return float(samples["lcml_requests_total", ("code", code), ("endpoint", endpoint), *labels])

    nobody = (("model", ""), ("version", ""))
    assert requests("200", "infer", *iris) == 4
    assert requests("400", "infer", *iris) == 1
    assert requests("404", "infer", *nobody) == 2
    assert requests("404", "none", *nobody) == 1
    assert samples["lcml_request_seconds_count", ("endpoint", "infer")] == 7
    assert samples["lcml_batch_rows_count", *iris] == 4
    assert samples["lcml_batch_rows_sum", *iris] == 9
    assert samples["lcml_run_seconds_count", *iris] == 4
    assert samples["lcml_queued_requests", *iris] == 0
    assert samples["lcml_requests_in_flight",] == 0
    assert samples["lcml_model_loads_total", ("model", "iris"), ("result", "loaded")] == 2
    (info,) = (key for key in samples if key[0] == "lcml_model_info")
    assert ("profile", "portable") in info
    assert ("model", "iris") in info
