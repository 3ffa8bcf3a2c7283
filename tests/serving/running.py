"""A service in its own process, and a plain HTTP client for it."""

import contextlib
import http.client
import json
import os
import resource
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forked import Forked

_WAIT_SECONDS = 120  # where the machine is busy with something else


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, which must be JSON."""
        return json.loads(self.body)


@dataclass
class Running:
    """A started service; `events` are its log lines so far."""

    process: Forked
    port: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def url(self) -> str:
        """host:port"""
        return f"127.0.0.1:{self.port}"

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_WAIT_SECONDS)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, content, dict(headers or {}))
            response = connection.getresponse()
            lowered = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, lowered, response.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET."""
        return self.call("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """POST."""
        return self.call("POST", path, body, headers)

    def wait_for(self, message: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        """The `count`-th log line with this message and these fields."""

        def matching() -> list[dict[str, Any]]:
            return [e for e in self.events if e["message"] == message and fields.items() <= e.items()]

        with self._changed:
            found = self._changed.wait_for(
                lambda: len(matching()) >= count or self.process.poll() is not None, _WAIT_SECONDS
            )
            assert found, self.events
            assert len(matching()) >= count, self.events
            return matching()[count - 1]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(_WAIT_SECONDS)
        self._reader.join(_WAIT_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr:
            for line in self.process.stderr:
                with self._changed:
                    self.events.append(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def start(*arguments: str | Path, environ: Mapping[str, str] | None = None) -> Running:
    """Start `python -m lcml_serving` on a free port and wait until it listens."""
    command = ["-m", "lcml_serving", *map(str, arguments), "--port", "0"]
    if "--drain-seconds" not in command:
        command += ["--drain-seconds", "0"]
    running = Running(Forked(*command, env={**os.environ, **(environ or {})}))
    running.port = running.wait_for("listening")["port"]
    return running


@contextlib.contextmanager
def open_files(limit: int) -> Iterator[None]:
    """What is started inside may open so many files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def infer_body(rows: list[list[float]], **more: Any) -> dict[str, Any]:
    """An Open Inference Protocol request."""
    shape = [len(rows), len(rows[0]) if rows else 4]
    return {"inputs": [{"name": "features", "datatype": "FP32", "shape": shape, "data": rows}], **more}
