"""What the endpoints share: settings, models, metrics, and the count of requests in work."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import final

from lcml_serving.errors import BusyError
from lcml_serving.metrics import Metrics
from lcml_serving.repository import Repository
from lcml_serving.settings import Settings


@final
class Service:
    """The state of one running service. Raises SettingsError and ModelError where it cannot start."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.draining = False
        self._n_in_work = 0
        # One model must not wait for another's run, so there are threads for two of them.
        self._executor = ThreadPoolExecutor(2 * settings.instances, thread_name_prefix="onnxruntime")
        self.repository = Repository(settings, self._executor, self.metrics)
        self.repository.load_all()

    @property
    def ready(self) -> bool:
        """Whether requests should be sent here."""
        return not self.draining and bool(self.repository.table)

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

    def render_metrics(self) -> str:
        """The metrics page, with the gauges as they are now."""
        served = [entry for versions in self.repository.table.values() for entry in versions.values()]
        models = [entry.model for entry in served]
        self.metrics.models.replace(
            {(m.name, m.version, m.sha256, m.metadata.get("lcml.profile", "")): 1 for m in models}
        )
        self.metrics.queued.replace(
            {(s.model.name, s.model.version): s.predict.n_waiting + s.explain.n_waiting for s in served}
        )
        self.metrics.in_flight.replace({(): self._n_in_work})
        return self.metrics.render()

    def close(self) -> None:
        """Give the threads back; no request is in work any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)
