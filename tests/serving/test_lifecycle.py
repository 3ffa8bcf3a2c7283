"""Start, reload under load, SIGTERM in the middle: no request lost, none wrong, exit code 0."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tritonclient import grpc as triton

from tests.serving.load import Tally, case, run_load, see_version
from tests.serving.onnx_models import PROBABILITIES, X, write_model
from tests.serving.running import Running, infer_body

# With bias (0, 0.5, 1) the logits of the three rows of X are (2, .5, 0), (0, .5, 3), (0, 1.5, 1):
# exp 7.389056, 1.648721, 1 over 10.037777; 1, 1.648721, 20.085537 over 22.734258; 1, 4.481689, 2.718282 over 8.199971
OTHER_BIAS = [0.0, 0.5, 1.0]
OTHER = [[0.736125, 0.164252, 0.099624], [0.043986, 0.072521, 0.883492], [0.121952, 0.546549, 0.331499]]
LABELS = [10, 30, 20]
CLIENTS = 8
CASES = [
    case("iris", row, [(label, first), (label, second)])
    for row, label, first, second in zip(X, LABELS, PROBABILITIES, OTHER, strict=True)
]


@pytest.mark.parametrize("batch_size", [1, 64])
def test_reloads_and_sigterm_under_load(launch: Callable[..., Running], tmp_path: Path, batch_size: int) -> None:
    path = write_model(tmp_path / "iris/1/model.onnx")
    running = launch(tmp_path, "--max-batch-size", batch_size, "--access-log", "off", "--drain-seconds", "1")

    async def scenario() -> None:
        tally = Tally()
        load = asyncio.ensure_future(run_load(running.port, CASES, tally, clients=CLIENTS, seconds=20))
        for n in range(6):
            await see_version(tally, n % 2, CLIENTS)
            await asyncio.to_thread(write_model, path, bias=OTHER_BIAS if n % 2 == 0 else None)
            if n % 3 == 2:
                running.signal(signal.SIGHUP)
            else:
                answer = await asyncio.to_thread(running.post, "/v2/repository/models/iris/load", {})
                assert answer.status == 200
        running.signal(signal.SIGTERM)
        await load
        assert (tally.lost, tally.wrong) == ([], [])
        assert tally.told_to_close == CLIENTS

    asyncio.run(scenario())
    assert running.stop() == 0


def test_while_draining_it_answers_but_is_not_ready(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"), "--drain-seconds", "30", "--grpc-port", "0")
    client = triton.InferenceServerClient(f"127.0.0.1:{running.wait_for('listening')['grpc_port']}")
    assert client.is_server_ready()
    running.signal(signal.SIGTERM)
    running.wait_for("draining")
    assert (client.is_server_ready(), client.is_server_live()) == (False, True)
    for path in ("/v2/health/ready", "/ping", "/v2/models/iris/ready"):
        answer = running.get(path)
        assert (answer.status, answer.headers["connection"]) == (503, "close")
    assert running.get("/v2/health/live").status == 200
    assert running.post("/v2/models/iris/infer", infer_body(X)).status == 200
    running.signal(signal.SIGTERM)  # the second does not wait for the rest of the 30 s, nor for the client of gRPC
    assert running.process.wait(20) == 0
    client.close()
    assert running.events[-1]["message"] == "stopped" or running.stop() == 0


def test_a_request_in_flight_at_sigterm_is_answered(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"))
    body = b'{"inputs": []}'
    head = f"POST /v2/models/iris/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
        client.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        reply = client.makefile("rb")
        assert b" 100 " in reply.readline()  # it reads the body
        assert reply.readline() == b"\r\n"
        client.sendall(body[:3])
        running.signal(signal.SIGTERM)
        running.wait_for("draining")
        client.sendall(body[3:])
        assert b" 400 " in reply.readline()
    assert running.process.wait(20) == 0


def test_a_second_signal_ends_what_is_in_flight_without_a_traceback(
    launch: Callable[..., Running], tmp_path: Path
) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"), "--drain-seconds", "30", "--body-timeout-seconds", "60")
    head = b"POST /v2/models/iris/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
        client.sendall(head)
        reply = client.makefile("rb")
        assert b" 100 " in reply.readline()
        running.signal(signal.SIGTERM)
        running.wait_for("draining")
        running.signal(signal.SIGTERM)
        assert reply.readline() == b"\r\n"
        assert b" 503 " in reply.readline()
    assert running.process.wait(20) == 0
    running.stop()
    assert [event for event in running.events if "traceback" in event or event["level"] == "error"] == []


def test_an_idle_connection_does_not_hold_up_the_end(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"))
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
        client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in client.makefile("rb").readline()
        assert running.stop() == 0


def test_sigint_ends_it_too(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"))
    running.signal(signal.SIGINT)
    assert running.process.wait(20) == 0


def test_the_health_command_asks_the_service(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch(write_model(tmp_path / "iris.onnx"))

    def health(port: int) -> int:
        environ = {**os.environ, "LCML_SERVING_PORT": str(port)}
        return subprocess.run([sys.executable, "-m", "lcml_serving.health"], env=environ, check=False).returncode

    assert health(running.port) == 0
    running.stop()
    assert health(running.port) == 1
