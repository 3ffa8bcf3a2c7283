"""/metrics, read by Prometheus' own parser."""

from collections.abc import Callable
from pathlib import Path

from lcml_serving.metrics import Family, Histogram
from tests.serving.onnx_models import X, write_model
from tests.serving.running import Running, infer_body


def test_counters_and_labels() -> None:
    family = Family("counter", "c", "C", ("a", "b"))
    family.add(labels=("x", 'say "hi"\\\n'))
    family.add(2.5, ("x", 'say "hi"\\\n'))
    assert list(family.lines()) == ['c{a="x",b="say \\"hi\\"\\\\\\n"} 3.5']


def test_histogram_buckets_are_cumulative_and_bounds_inclusive() -> None:
    histogram = Histogram("h", "H", (0.5, 1.0))
    for value in (0.25, 0.5, 0.75, 2.0):
        histogram.observe(value)
    assert list(histogram.lines()) == [
        'h_bucket{le="0.5"} 2',
        'h_bucket{le="1"} 3',
        'h_bucket{le="+Inf"} 4',
        "h_sum 3.5",
        "h_count 4",
    ]


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
