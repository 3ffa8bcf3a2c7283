"""The service beside MLServer, which serves the same ONNX file by a runtime of a few lines, and what drift costs.

    python -m tests.bench.serving_peers --model FILE.onnx --mlserver VENV/bin/mlserver [--rounds 5] [--each 4]
    python -m tests.bench.serving_peers --drift [--rounds 40]

The first alternates between the services and prints requests/s relative to MLServer's, the median over the rounds; its
environment needs mlserver and onnxruntime. The second asks in turn a service that counts drift and one that does
not, and compares their processor time. The machine may do other things meanwhile: only ratios say something.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lcml_serving.models import load_model
from tests.bench.serving_load import table_cases
from tests.serving.load import HOST, Case, Tally, grpc_case, http_case, run_grpc_load, run_load
from tests.serving.running import Running, start

N_CASES = 64
CLIENTS = 32
_WAIT_SECONDS = 60
REQUESTS = 1024  # of each service in a round; rows are counted 256 together
RUNTIME = """
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from mlserver.utils import get_model_uri


class Runtime(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = await get_model_uri(self._settings)
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload):
        names = ["label", "probabilities"]
        features = NumpyCodec.decode_input(payload.inputs[0]).astype("float32")
        arrays = self._session.run(names, {"features": features})
        outputs = [NumpyCodec.encode_output(name, array) for name, array in zip(names, arrays)]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="of a matrix of float32")
    parser.add_argument("--mlserver", type=Path, help="the program of an environment of its own")
    parser.add_argument("--drift", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--each", type=float, default=4.0, help="seconds")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        if arguments.drift:
            compare_drift(Path(directory), arguments)
        else:
            compare_peers(Path(directory), arguments.model.resolve(), arguments.mlserver, arguments)


def compare_peers(directory: Path, path: Path, program: Path, arguments: Any) -> None:
    """Requests/s of `CLIENTS` clients, service by service in turn."""
    by_http, by_grpc = _cases(path)
    running = start(path, "--name", "model", "--access-log", "off", "--grpc-port", "0")
    with (
        _mlserver(directory / "alone", path, program, 0) as alone,
        _mlserver(directory / "one", path, program, 1) as one,
    ):
        services = {"lcml": (running.port, running.wait_for("listening")["grpc_port"]), "MLServer": alone}
        services["MLServer, one worker process"] = one
        found: dict[tuple[str, str], list[Tally]] = {}
        for _ in range(arguments.rounds):
            for name, ports in services.items():
                for protocol, run, port, cases in zip(
                    ("HTTP", "gRPC"), (run_load, run_grpc_load), ports, (by_http, by_grpc), strict=True
                ):
                    tally = Tally()
                    asyncio.run(run(port, cases, tally, clients=CLIENTS, seconds=arguments.each))
                    assert not tally.lost + tally.wrong, (name, protocol, (tally.lost + tally.wrong)[:1])
                    found.setdefault((protocol, name), []).append(tally)
        running.stop()
    print("| protocol | service | requests/s relative to MLServer | p50 | p99 |\n|---|---|---|---|---|")
    for (protocol, name), tallies in found.items():
        base = found[protocol, "MLServer"]
        told = [np.median([a.per_second / b.per_second for a, b in zip(tallies, base, strict=True)])]
        for q in (0.5, 0.99):
            told.append(np.median([a.milliseconds(q) / b.milliseconds(q) for a, b in zip(tallies, base, strict=True)]))
        print(f"| {protocol} | {name} | {' | '.join(f'{ratio:.2f}' for ratio in told)} |")


def compare_drift(directory: Path, arguments: Any) -> None:
    """Processor time of the service per request of 1 and 32 rows, with drift counted over without."""
    path, cases, _ = table_cases(directory)
    options = ("--name", "model", "--access-log", "off", "--drift-rows")
    services = [start(path, *options, n) for n in ("10000", "0")]
    connections = [http.client.HTTPConnection(HOST, service.port) for service in services]
    for n_rows in (1, 32):
        bodies = [_repeated(case, n_rows) for case in cases]
        ratios = []
        for _ in range(arguments.rounds):
            before = [_processor_seconds(service) for service in services]
            for n in range(REQUESTS):  # in turn, so that both meet the same neighbours
                for connection in connections[:: 1 if n % 2 else -1]:
                    connection.request("POST", "/v2/models/model/infer", bodies[n % len(bodies)])
                    with connection.getresponse() as answer:
                        assert answer.status == 200
                        answer.read()
            after = [_processor_seconds(service) for service in services]
            ratios.append((after[0] - before[0]) / (after[1] - before[1]))
        low, middle, high = np.quantile(ratios[1:], (0.25, 0.5, 0.75))
        print(f"{n_rows} rows: {middle:.4f} (quartiles {low:.4f}, {high:.4f})")
    for service in services:
        service.stop()


def _processor_seconds(service: Running) -> float:
    tasks = Path(f"/proc/{service.process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _repeated(case: Case, n_rows: int) -> bytes:
    """The body of a case of one row, with that row so many times."""
    message = json.loads(case.request.split(b"\r\n\r\n", 1)[1])
    for tensor in message["inputs"]:
        tensor.update(shape=[n_rows, 1], data=tensor["data"] * n_rows)
    return json.dumps(message).encode()


def _cases(path: Path) -> tuple[list[Case], list[Case]]:
    model = load_model(path, "model", "1", 1)
    rows = np.random.default_rng(0).integers(0, 2, (N_CASES, model.signature.n_features)).astype(np.float32)
    labels, probabilities = model.run(("label", "probabilities"), rows)
    by_http, by_grpc = [], []
    for row, label, values in zip(rows.tolist(), labels.tolist(), probabilities.tolist(), strict=True):
        tensor = {"name": "features", "datatype": "FP32", "shape": [1, len(row)], "data": row}
        by_http.append(http_case("model", [tensor], [(label, values)]))
        by_grpc.append(grpc_case("model", [tensor], [(label, values)]))
    return by_http, by_grpc


@contextlib.contextmanager
def _mlserver(directory: Path, path: Path, program: Path, workers: int) -> Iterator[tuple[int, int]]:
    """Its ports for HTTP and gRPC."""
    directory.mkdir()
    ports = [_free_port() for _ in range(3)]
    settings: dict[str, Any] = dict(zip(("http_port", "grpc_port", "metrics_port"), ports, strict=True))
    settings |= {"parallel_workers": workers, "debug": False, "host": HOST, "metrics_endpoint": None}
    (directory / "settings.json").write_text(json.dumps(settings))
    model = {"name": "model", "implementation": "runtime.Runtime", "parameters": {"uri": str(path)}}
    (directory / "model-settings.json").write_text(json.dumps(model))
    (directory / "runtime.py").write_text(RUNTIME)
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen([program, "start", "."], cwd=directory, stdout=log, stderr=log)
    try:
        for _ in range(_WAIT_SECONDS):
            assert process.poll() is None, (directory / "log").read_text()[-2000:]
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://{HOST}:{ports[0]}/v2/models/model/ready"),
            ):
                break
            time.sleep(1)
        yield ports[0], ports[1]
    finally:
        process.terminate()
        try:
            process.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
    sys.exit()
