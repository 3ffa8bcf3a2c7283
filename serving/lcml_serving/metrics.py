"""Counters, gauges and histograms in Prometheus' text format (version 0.0.4).

All of them are touched from the event loop's thread only.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import final

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@final
class Family:
    """A counter or gauge: one number per tuple of label values."""

    def __init__(self, kind: str, name: str, description: str, label_names: Sequence[str] = ()) -> None:
        self.kind, self.name, self.description = kind, name, description
        self._label_names = tuple(label_names)
        self._values: dict[Labels, float] = {}

    def add(self, amount: float = 1, labels: Labels = ()) -> None:
        """Add to the number; a counter only grows."""
        self._values[labels] = self._values.get(labels, 0) + amount

    def replace(self, values: dict[Labels, float]) -> None:
        """Forget all label values but these: for gauges that mirror a state."""
        self._values = dict(values)

    def lines(self) -> Iterator[str]:
        """Samples, one a line."""
        for labels, value in self._values.items():
            yield f"{self.name}{_label_text(self._label_names, labels)} {value:.17g}"


@final
class Histogram:
    """Counts of observations at or below each bound, with their sum, per tuple of label values."""

    kind = "histogram"

    def __init__(self, name: str, description: str, bounds: Sequence[float], label_names: Sequence[str] = ()) -> None:
        self.name, self.description = name, description
        self._bounds, self._label_names = tuple(bounds), tuple(label_names)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count one observation."""
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        """Cumulative buckets, sum and count, one sample a line."""
        names = (*self._label_names, "le")
        for labels, counts in self._counts.items():
            total = 0
            for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
                total += count
                shown = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield f"{self.name}_bucket{_label_text(names, (*labels, shown))} {total}"
            yield f"{self.name}_sum{_label_text(self._label_names, labels)} {self._sums[labels]:.17g}"
            yield f"{self.name}_count{_label_text(self._label_names, labels)} {total}"


_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_ROWS = tuple(2.0**power for power in range(13))
_MODEL = ("model", "version")


@final
class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self.requests = Family("counter", "lcml_requests_total", "Requests answered.", ("endpoint", *_MODEL, "code"))
        self.request_seconds = Histogram(
            "lcml_request_seconds", "Time from request to answer, body included.", _SECONDS, ("endpoint",)
        )
        self.batch_rows = Histogram("lcml_batch_rows", "Examples in one onnxruntime run.", _ROWS, _MODEL)
        self.run_seconds = Histogram("lcml_run_seconds", "Time of one onnxruntime run.", _SECONDS, _MODEL)
        self.queue_seconds = Histogram("lcml_queue_seconds", "Time a request waited for its run.", _SECONDS, _MODEL)
        self.queued = Family("gauge", "lcml_queued_requests", "Requests waiting for a run.", _MODEL)
        self.in_flight = Family("gauge", "lcml_requests_in_flight", "Requests in work.")
        self.reloads = Family("counter", "lcml_model_loads_total", "Model files loaded.", ("model", "result"))
        self.models = Family("gauge", "lcml_model_info", "Models served, always 1.", (*_MODEL, "sha256", "profile"))
        self.in_flight.add(0)

    def render(self) -> str:
        """The text that Prometheus scrapes."""
        lines: list[str] = []
        for family in vars(self).values():
            lines += [f"# HELP {family.name} {family.description}", f"# TYPE {family.name} {family.kind}"]
            lines += family.lines()
        return "\n".join(lines) + "\n"


def _label_text(names: Sequence[str], values: Labels) -> str:
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}" if names else ""
