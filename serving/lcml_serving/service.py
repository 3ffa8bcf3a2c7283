"""What the endpoints share: settings, models, metrics, and the count of requests in work."""

import contextlib
import hmac
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lcml_serving.body import Bodies
from lcml_serving.errors import BusyError, UnauthorizedError
from lcml_serving.metrics import Metrics
from lcml_serving.repository import Repository
from lcml_serving.settings import Settings
from lcml_serving.worker import Workers

Result = TypeVar("Result")

# Bytes or numbers of JSON that take about a millisecond to read or write. Above it, a worker process costs less than
# what the other requests would wait.
LARGE = 16_384


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
        self.repository = Repository(settings, self._executor, self.metrics)
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
        self._workers.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
