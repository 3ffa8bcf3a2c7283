"""The life of the process: listen, reload on SIGHUP or by polling, drain and stop on SIGTERM or SIGINT."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette

from lcml_serving.app import create_app
from lcml_serving.connections import BACKLOG, Connection, Idle, connection_limit
from lcml_serving.errors import SettingsError
from lcml_serving.logs import log
from lcml_serving.service import Service
from lcml_serving.settings import LONGEST

_QUEUE = 2048  # connections that the kernel holds until they are accepted


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises SettingsError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_QUEUE)
        # Connections inherit it. asyncio sets it for sockets it makes itself; without it an answer, written as head
        # and body, waits 40 ms for the client's acknowledgement of the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error)[:LONGEST]
        message = f"cannot listen on {host[:LONGEST]} port {port}: {reason}; choose --host and --port"
        raise SettingsError(message) from error


class _Server(uvicorn.Server):
    """uvicorn's server, for which the kernel keeps more connections than asyncio accepts in one go."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_QUEUE)


async def serve(service: Service) -> None:
    """Answer requests until SIGTERM or SIGINT, then drain.

    Draining: readiness is false and answers close their connections, but new requests are still taken for
    `drain_seconds`, so that a load balancer can turn away first; then the socket closes, requests in flight finish
    (within `grace_seconds`), and this returns. A second signal skips the waiting.
    """
    settings = service.settings
    listener = listen(settings.host, settings.port)
    tasks: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()

    beside: Any = None  # the server of gRPC

    def start(coroutine: Coroutine[Any, Any, None]) -> None:
        task = loop.create_task(coroutine)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def drain() -> None:
        await asyncio.sleep(settings.drain_seconds)
        server.should_exit = True

    def stop(name: str) -> None:
        if service.draining:  # the second signal: wait no longer for anything
            server.should_exit = True
            for task in list(server.server_state.tasks):
                task.cancel()
            if beside is not None:
                start(beside.stop(None))
            return
        service.draining = True
        log.info("draining", extra={"signal": name})
        start(drain())

    async def reload() -> None:
        try:
            await service.repository.reload()
        except Exception:
            log.exception("reload failed")

    async def poll() -> None:
        while True:
            await asyncio.sleep(settings.poll_seconds)
            await reload()

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Installed here, after uvicorn's own handlers, which would end the process by the signal instead of exit 0.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number.name)
        loop.add_signal_handler(signal.SIGHUP, lambda: start(reload()))
        if settings.poll_seconds:
            start(poll())
        models = sorted(service.repository.table)
        limit = {"max_connections": idle.max_connections}
        log.info("listening", extra={"host": host, "models": models} | ports | limit)
        yield
        for task in tasks:
            task.cancel()

    idle = Idle(connection_limit(settings.max_connections), settings.body_timeout_seconds)
    server = _Server(
        uvicorn.Config(
            create_app(service, lifespan),
            http=partial(Connection, idle=idle),  # type: ignore[arg-type]  # what makes a protocol will do
            backlog=BACKLOG,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=settings.grace_seconds,
        )
    )
    host, port = listener.getsockname()[:2]
    if settings.token is None and host not in ("127.0.0.1", "::1"):
        log.warning("open to the network without a bearer token; set LCML_SERVING_TOKEN or --token-file")
    ports = {"port": port}
    with listener:
        async with contextlib.AsyncExitStack() as stack:
            if settings.grpc_port >= 0:
                from lcml_serving.grpc_server import start_grpc

                beside, ports["grpc_port"] = await start_grpc(service)
                stack.push_async_callback(beside.stop, settings.grace_seconds)
            await server.serve(sockets=[listener])
    log.info("stopped")
