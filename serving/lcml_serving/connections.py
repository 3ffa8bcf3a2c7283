"""How many connections are open, and how long one may take to send a request's head."""

import asyncio
import itertools
import math
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG = 32  # connections that asyncio accepts in one go, before it looks at any of them
# Descriptors that are not connections: models, worker processes, logs; and three rounds of accepted connections, which
# is how long the loop takes to close one that is turned away.
_RESERVED = 64 + 3 * BACKLOG


def connection_limit(wanted: int) -> int:
    """At most `wanted` connections, and fewer where the process may not open so many files."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(files - _RESERVED, math.ceil(files / 2)))


class Idle:
    """The connections on which no request is under way, by when that began."""

    def __init__(self, max_connections: int, seconds: float) -> None:
        self.max_connections, self._seconds = max_connections, seconds
        self._since: dict[Connection, float] = {}  # in the order of time
        self._sweeping = False

    def add(self, connection: "Connection") -> None:
        """Note that the connection is idle; it closes where that lasts too long."""
        if connection not in self._since:
            self._since[connection] = connection.loop.time()
            if not self._sweeping:
                self._sweeping = True
                connection.loop.call_later(self._seconds, self._sweep, connection.loop)

    def remove(self, connection: "Connection") -> None:
        """Note that a request is under way, or that the connection is no more."""
        self._since.pop(connection, None)

    def make_room(self, n_connections: int) -> None:
        """Close the one that has been idle longest where there are too many."""
        if n_connections > self.max_connections and self._since:
            longest = next(iter(self._since))
            self.remove(longest)
            longest.transport.abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        end = loop.time() - self._seconds
        for connection in list(itertools.takewhile(lambda each: self._since[each] <= end, self._since)):
            self.remove(connection)
            if connection.transport.get_write_buffer_size():  # it still takes its answer, slowly
                self.add(connection)
            else:
                connection.transport.close()
        first = next(iter(self._since.values()), None)
        self._sweeping = first is not None
        if first is not None:
            loop.call_later(max(first - end, self._seconds / 10), self._sweep, loop)


class Connection(H11Protocol):
    """uvicorn's connection, known to `Idle` while it has no request under way."""

    def __init__(self, *arguments: Any, idle: Idle, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._idle = idle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look()
        self._idle.make_room(len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.remove(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Idle until the head of a request is complete, and again after its answer."""
        if self.cycle is None or self.cycle.response_complete:
            self._idle.add(self)
        else:
            self._idle.remove(self)
