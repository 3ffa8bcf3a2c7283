"""What the endpoints share: settings, models, metrics, traces, and the count of requests in work."""

import contextlib
import hmac
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lcml_serving.body import Bodies
from lcml_serving.errors import BusyError, SettingsError, UnauthorizedError
from lcml_serving.logs import log
from lcml_serving.metrics import Metrics
from lcml_serving.repository import Repository
from lcml_serving.settings import Settings
from lcml_serving.signature import Signature
from lcml_serving.worker import Workers

Result = TypeVar("Result")

# Bytes or numbers of JSON that take about a millisecond to read or write. Above it, a worker process costs less than
# what the other requests would wait.
LARGE = 16_384
_UNTRACED = contextlib.nullcontext()


class Service:
    """The state of one running service. Raises SettingsError and ModelError where it cannot start."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.draining = False
        self._n_in_work = 0
        # One model must not wait for another's run, so there are threads for two of them.
        self._executor = ThreadPoolExecutor(2 * settings.instances, thread_name_prefix="onnxruntime")
        self._workers = Workers(settings.instances)
        self.bodies = Bodies(
            settings.max_body_bytes, settings.max_concurrency * settings.max_body_bytes, settings.body_timeout_seconds
        )
        self.tracing = tracing_of(os.environ)
        trace = None if self.tracing is None else self.tracing.ran
        self.repository = Repository(settings, self._executor, self.metrics, trace)
        self.repository.load_all()

    @property
    def ready(self) -> bool:
        """Whether requests should be sent here."""
        return not self.draining and bool(self.repository.table)

    def check_token(self, authorization: str) -> None:
        """Raises UnauthorizedError where there is a token and this header, or metadata, does not carry it."""
        token = self.settings.token
        scheme, _, given = authorization.partition(" ")
        if token and not (scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())):
            raise UnauthorizedError("expected the header Authorization: Bearer TOKEN with the service's token")

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """A place among the requests in work. Raises BusyError where all are taken."""
        if self._n_in_work >= self.settings.max_concurrency:
            raise BusyError(f"{self._n_in_work} requests are in work, which is the limit; try again")
        self._n_in_work += 1
        try:
            yield
        finally:
            self._n_in_work -= 1

    def stage(self, name: str, model: Signature) -> contextlib.AbstractContextManager[Any]:
        """A part of a request for this model: a span of its trace, where there is one."""
        return _UNTRACED if self.tracing is None else self.tracing.stage(name, model)

    async def off_loop(self, size: int, function: Callable[..., Result], *arguments: Any) -> Result:
        """`function(*arguments)`, in a worker process where `size`, bytes or numbers of JSON, is large."""
        return await self._workers.call(function, *arguments) if size > LARGE else function(*arguments)

    def render_metrics(self) -> bytes:
        """The metrics page, with the gauges as they are now."""
        metrics = self.metrics
        metrics.clear()
        for served in (entry for versions in self.repository.table.values() for entry in versions.values()):
            model, signature = served.model, served.model.signature
            labels = signature.name, signature.version
            metrics.models.labels(*labels, model.sha256, model.metadata.get("lcml.profile", "")).set(1)
            metrics.queued.labels(*labels).set(served.predict.n_waiting + served.explain.n_waiting)
            if served.drift and (shares := served.drift.shares()):
                metrics.set_drift(*labels, shares)
        metrics.in_flight.set(self._n_in_work)
        return metrics.render()

    def close(self) -> None:
        """Give threads and processes back; no request is in work any more."""
        if self.tracing is not None:
            self.tracing.close()
        self._workers.close()
        self._executor.shutdown(wait=False, cancel_futures=True)


def tracing_of(environ: Mapping[str, str]) -> Any:
    """What traces requests, where OpenTelemetry's variables ask for that; else None, and nothing of it is imported.

    Raises SettingsError where it cannot use these variables.
    """

    def given(name: str) -> str:
        return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")

    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    if is_off or not given("ENDPOINT"):
        return None
    if given("PROTOCOL") not in ("", "http/protobuf"):
        log.warning("traces are sent as http/protobuf alone", extra={"asked": given("PROTOCOL")})
    try:
        from lcml_serving.tracing import Tracing

        return Tracing()
    except ImportError as error:  # the variables may be those of all pods of a cluster
        log.warning("no traces; install the extra otel, or set OTEL_SDK_DISABLED=true", extra={"reason": str(error)})
        return None
    except ValueError as error:
        raise SettingsError(f"variables OTEL_*: {error}; see OpenTelemetry's documentation of them") from error
