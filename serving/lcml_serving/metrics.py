"""The metrics of one service, on prometheus-client, in a registry of their own."""

from collections.abc import Callable
from functools import lru_cache, partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from lcml_serving.batching import BatchReport
from lcml_serving.drift import Shares

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_ROWS = tuple(2.0**power for power in range(13))
_MODEL = ("model", "version")
_SERIES = 1_024

disable_created_metrics()  # in this text format they would be one more series per counter and histogram


class Metrics:
    """Counters, histograms and gauges; the gauges are set when they are rendered."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self._registry), partial(Gauge, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry, buckets=_SECONDS)
        self.requests = counter("lcml_requests_total", "Requests answered.", ("endpoint", *_MODEL, "code"))
        what = "Time from request to answer, body included."
        self.request_seconds = histogram("lcml_request_seconds", what, ("endpoint",))
        self.batch_rows = histogram("lcml_batch_rows", "Examples in one onnxruntime run.", _MODEL, buckets=_ROWS)
        self.run_seconds = histogram("lcml_run_seconds", "Time of one onnxruntime run.", _MODEL)
        self.queue_seconds = histogram("lcml_queue_seconds", "Time a request waited for its run.", _MODEL)
        self.queued = gauge("lcml_queued_requests", "Requests waiting for a run.", _MODEL)
        self.in_flight = gauge("lcml_requests_in_flight", "Requests in work.")
        self.reloads = counter("lcml_model_loads_total", "Model files loaded.", ("model", "result"))
        self.models = gauge("lcml_model_info", "Models served, always 1.", (*_MODEL, "sha256", "profile"))

        self._drift = {
            "rows": gauge("lcml_drift_rows", "Latest rows that shares are of.", _MODEL),
            "psi": gauge("lcml_column_psi", "Population stability index of a column.", (*_MODEL, "column")),
            "missing": gauge("lcml_column_missing_share", "Share of gaps in a column.", (*_MODEL, "column")),
            "unknown": gauge("lcml_column_unknown_share", "Share of categories unknown to it.", (*_MODEL, "column")),
            "classes": gauge("lcml_class_share", "Share of a predicted class.", (*_MODEL, "class")),
            "class_psi": gauge("lcml_class_psi", "Population stability index of the classes.", _MODEL),
        }

        # finding the series of a request's labels takes longer than counting it there
        self._count = lru_cache(_SERIES)(self.requests.labels)
        self._time = lru_cache(_SERIES)(self.request_seconds.labels)

    def count(self, endpoint: str, model: str, version: str, status: int, seconds: float) -> None:
        """A request that was answered."""
        self._count(endpoint, model, version, str(status)).inc()
        self._time(endpoint).observe(seconds)

    def clear(self) -> None:
        """Forget what models say when they are asked, so that those not served any more say nothing."""
        for series in (self.models, self.queued, *self._drift.values()):
            series.clear()

    def set_drift(self, model: str, version: str, shares: Shares) -> None:
        of = self._drift
        of["rows"].labels(model, version).set(shares.n_rows)
        of["class_psi"].labels(model, version).set(shares.class_psi)
        for name in ("psi", "missing", "unknown", "classes"):
            for of_what, value in getattr(shares, name).items():
                of[name].labels(model, version, of_what).set(value)

    def reporter(self, model: str, version: str) -> Callable[[BatchReport], None]:
        """What counts the runs of one model; the series are found once, which takes longer than counting."""
        rows, run, queue = (
            histogram.labels(model, version) for histogram in (self.batch_rows, self.run_seconds, self.queue_seconds)
        )

        def report(batch: BatchReport) -> None:
            rows.observe(batch.n_rows)
            run.observe(batch.run_seconds)
            for seconds in batch.wait_seconds:
                queue.observe(seconds)

        return report

    def render(self) -> bytes:
        return bytes(generate_latest(self._registry))
