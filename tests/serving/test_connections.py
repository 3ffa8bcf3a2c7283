"""Many connections, slow heads, and the lines that they log: with real sockets."""

import contextlib
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lcml_serving.connections import connection_limit
from lcml_serving.logs import Rate, log
from tests.serving.onnx_models import X, write_model
from tests.serving.running import Running, infer_body, open_files

INFER = "/v2/models/iris/infer"
HALF_HEAD = b"GET /v2 HTTP/1.1\r\nHo"


def test_connections_stay_below_theopen_files() -> None:
    for files, expected in ((1024, 864), (256, 128), (2048, 1000)):
        with open_files(files):
            assert connection_limit(1000) == expected


def test_idle_connections_beyond_the_open_files_lose_no_request(launch: Callable[..., Running], tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    with open_files(256):
        running = launch(path)
    assert running.wait_for("listening")["max_connections"] == 128
    with contextlib.ExitStack() as stack:
        idle = []
        for n in range(400):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            if n % 2:
                client.sendall(HALF_HEAD)
            idle.append(client)
            if n % 50 == 0:
                assert running.post(INFER, infer_body(X)).status == 200
        assert _is_closed(idle[0])  # the longest idle had to go
        assert running.post(INFER, infer_body(X)).status == 200
    assert {event["logger"] for event in running.events} == {"lcml_serving"}


def test_a_connection_in_use_is_not_the_one_to_go(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"), "--max-connections", "4", "--body-timeout-seconds", "30")
    head = b"POST /v2/models/iris/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))

        used = connect()
        used.sendall(head)
        reply = used.makefile("rb")
        assert b" 100 " in reply.readline()
        others = [connect() for _ in range(20)]
        assert _is_closed(others[0])
        used.sendall(b"{}")
        assert reply.readline() == b"\r\n"
        assert b" 400 " in reply.readline()


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n" + HALF_HEAD])
def test_a_head_has_to_arrive_in_time(launch: Callable[..., Running], tmp_path: Path, sent: bytes) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"), "--body-timeout-seconds", "0.5")
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
        client.sendall(sent)
        answer = client.makefile("rb").read()  # until the service closes
    assert answer.startswith(b"HTTP/1.1 200") == sent.startswith(b"GET /v2/health/live")


def test_bytes_that_trickle_in_do_not_prolong_it(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"), "--body-timeout-seconds", "0.5")
    deadline = time.monotonic() + 30
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
        client.sendall(b"GET /v2 HTTP/1.1\r\nX: ")
        client.settimeout(0.05)
        while not _is_closed(client):
            assert time.monotonic() < deadline
            with contextlib.suppress(ConnectionError):
                client.sendall(b"x")


def test_a_line_of_a_library_that_repeats_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    rate = Rate()

    def passes(name: str = "asyncio", message: str = "out of files") -> logging.LogRecord | None:
        record = logging.LogRecord(name, logging.ERROR, "", 0, message, None, None)
        return record if rate.filter(record) else None

    assert passes() is not None
    assert [passes() for _ in range(1000)] == [None] * 1000
    assert passes(message="another") is not None
    assert all(passes(log.name, "request") for _ in range(3))
    now = 10.0
    record = passes()
    assert record is not None
    assert vars(record)["left_out"] == 1000


def _is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True
