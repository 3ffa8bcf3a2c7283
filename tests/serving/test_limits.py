"""Limits, tokens and clients that misbehave: the right 4xx, and a service that goes on."""

import contextlib
import http.client
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serving.onnx_models import X, write_model
from tests.serving.running import Running, infer_body

INFER = "/v2/models/plain/infer"


@pytest.mark.parametrize("size", [200_001, 800_000])  # up to four times the limit is read before the answer
def test_a_large_body_is_refused(service: Running, size: int) -> None:
    answer = service.post(INFER, b" " * size)
    assert answer.status == 413
    assert "above 200000 bytes" in answer.json()["error"]


def test_a_large_body_of_unknown_length_is_refused(service: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    chunks: Iterator[bytes] = (b" " * 10_000 for _ in range(50))
    connection.request("POST", INFER, chunks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 413
    connection.close()


def _exchange(service: Running, content: bytes) -> bytes:
    """Send raw bytes and read the first line of the answer."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as client:
        client.sendall(content)
        return client.makefile("rb").readline()


def test_a_huge_declared_length_is_refused_before_it_is_sent(service: Running) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {10**12}\r\n\r\n"
    assert b" 413 " in _exchange(service, head.encode())
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 300000\r\n\r\n"
    assert b" 413 " in _exchange(service, head.encode())


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /v2/models/plain/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(service: Running, content: bytes) -> None:
    assert b" 400 " in _exchange(service, content)


def test_a_client_that_leaves_in_the_middle_is_counted_as_gone(service: Running) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nX-Request-Id: leaver\r\nContent-Length: 100\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as client:
        client.sendall(head.encode())
    assert service.wait_for("request", request_id="leaver")["status"] == 499
    assert service.post(INFER, infer_body(X)).status == 200


@pytest.fixture
def strict(launch: Callable[..., Running], tmp_path: Path) -> Running:
    """At most one request in work, and little patience for bodies."""
    path = write_model(tmp_path / "plain.onnx")
    return launch(path, "--max-concurrency", "1", "--body-timeout-seconds", "0.5")


SLOW = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode()


def test_slow_bodies_end_with_408(strict: Running) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as slow:
        slow.sendall(SLOW)
        reply = slow.makefile("rb")
        assert b" 408 " in reply.readline()
        assert b"connection: close" in reply.read().lower()
    assert strict.post(INFER, infer_body(X)).status == 200


def test_idle_senders_take_no_place_of_those_that_are_ready(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "plain.onnx"), "--max-concurrency", "8", "--body-timeout-seconds", "30")
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            slow.sendall(SLOW.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
            assert b" 100 " in slow.makefile("rb").readline()  # it is being read
        for _ in range(3):
            assert running.post(INFER, infer_body(X)).status == 200


def test_more_requests_in_work_than_allowed_are_told_to_come_back(
    launch: Callable[..., Running], tmp_path: Path
) -> None:
    # a batch that waits for company keeps its request in work
    running = launch(write_model(tmp_path / "plain.onnx"), "--max-concurrency", "1", "--max-batch-delay-ms", "1000")
    first = threading.Thread(target=running.post, args=(INFER, infer_body(X)))
    first.start()
    while b"lcml_requests_in_flight 1" not in running.get("/metrics").body:
        assert first.is_alive()
    answer = running.post(INFER, infer_body(X))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "1 requests are in work, which is the limit" in answer.json()["error"]
    assert running.get("/v2/health/ready").status == 200  # probes need no place
    first.join(30)
    assert running.post(INFER, infer_body(X)).status == 200


def test_bodies_together_have_a_limit(launch: Callable[..., Running], tmp_path: Path) -> None:
    """What is allowed is that of --max-concurrency bodies; more clients than that may be sending."""
    path = write_model(tmp_path / "plain.onnx")
    running = launch(path, "--max-concurrency", "1", "--max-body-bytes", "100000", "--body-timeout-seconds", "30")
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30)) for _ in range(2)
        ]
        for client in clients:
            client.sendall(head + b" " * 80_000)
        ready, _, _ = select.select(clients, [], [], 30)
        assert b" 503 " in ready[0].recv(1000).splitlines()[0]
    assert running.wait_for("request", status=503)["path"] == INFER
    assert running.post(INFER, infer_body(X)).status == 200


def test_slow_headers_keep_nobody_else_waiting(strict: Running) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as slow:
        slow.sendall(b"POST /v2/models/plain/infer HTTP/1.1\r\nHo")
        assert strict.post(INFER, infer_body(X)).status == 200


@pytest.mark.parametrize("from_file", [True, False])
def test_bearer_token(launch: Callable[..., Running], tmp_path: Path, from_file: bool) -> None:
    path = write_model(tmp_path / "plain.onnx")
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    running = (
        launch(path, "--token-file", token)
        if from_file
        else launch(path, environ={"LCML_SERVING_TOKEN": "s3cret-token"})
    )
    for wrong in (
        None,
        "",
        "s3cret-token",
        "Bearer",
        "Bearer ",
        "Bearer s3cret-tokem",
        "Basic s3cret-token",
        "Bearer \xe9",
    ):
        headers: dict[str, str] = {} if wrong is None else {"Authorization": wrong}
        for method, where in (
            ("POST", INFER),
            ("POST", "/invocations"),
            ("GET", "/metrics"),
            ("GET", "/v2/repository/index"),
            ("POST", "/v2/repository/models/plain/load"),
            ("GET", "/nowhere"),
        ):
            answer = running.call(method, where, headers=headers)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    for scheme in ("Bearer", "bearer"):
        headers = {"Authorization": f"{scheme} s3cret-token"}
        assert running.post(INFER, infer_body(X), headers).status == 200
    for probe in ("/v2/health/live", "/v2/health/ready", "/ping"):
        assert running.get(probe).status == 200
    assert "token" in running.get("/openapi.json", headers).json()["components"]["securitySchemes"]
    assert "s3cret" not in str(running.events)


def test_request_ids(service: Running) -> None:
    assert service.get("/v2", {"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert service.wait_for("request", request_id="abc-1")["path"] == "/v2"
    for unusable in ("a b", "x" * 129, "{}"):
        given = service.get("/v2", {"X-Request-Id": unusable}).headers["x-request-id"]
        assert len(given) == 32
    first, second = (service.get("/nowhere").headers["x-request-id"] for _ in range(2))
    assert first != second


def test_many_clients_at_once_get_their_own_answers(service: Running) -> None:
    wrong: list[object] = []

    def ask(row: int) -> None:
        for _ in range(20):
            answer = service.post(INFER, infer_body([X[row % 3]]))
            if answer.status != 200 or answer.json()["outputs"][0]["data"] != [[10, 30, 20][row % 3]]:
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=(row,)) for row in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
