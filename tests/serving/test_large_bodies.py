"""Bodies of 15 MB: their answers are right, and the others do not wait for them."""

import asyncio
import gzip
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton

from lcml_serving.errors import BadRequestError, BusyError
from lcml_serving.features import parse_json
from lcml_serving.worker import Workers
from tests.serving.onnx_models import LOGITS, X, write_model
from tests.serving.running import Running, infer_body

INFER = "/v2/models/plain/infer"
N_LARGE, LARGE_BYTES = 6, 15_000_000
PROBE_SECONDS = 0.2
LATE_SHARE = 0.1  # of the time, for a machine that is busy with something else; it was 0.9 on the event loop


@pytest.fixture
def running(launch: Callable[..., Running], tmp_path: Path) -> Running:
    return launch(write_model(tmp_path / "plain.onnx"))


@pytest.mark.alone
def test_probes_do_not_wait_for_large_bodies(running: Running) -> None:
    row = b"0.1234567,1.5,0.25,3.75"
    n_rows = LARGE_BYTES // (len(row) + 1)
    head = b'{"inputs":[{"name":"features","datatype":"FP32","shape":[%d,4],"data":[' % n_rows
    body = head + b",".join([row] * n_rows) + b"]}]}"
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(running.post(INFER, body).status)) for _ in range(N_LARGE)
    ]
    for thread in threads:
        thread.start()
    waits = []
    while any(thread.is_alive() for thread in threads):
        started = time.perf_counter()
        assert running.get("/v2/health/live").status == 200
        waits.append(time.perf_counter() - started)
    assert statuses == [422] * N_LARGE  # too many rows, known once the JSON is read
    late = sum(wait for wait in waits if wait > PROBE_SECONDS)
    assert late < LATE_SHARE * sum(waits), sorted(waits)[-10:]


@pytest.mark.parametrize("compressed", [False, True])
def test_what_a_worker_reads_and_writes_is_what_the_loop_does(running: Running, compressed: bool) -> None:
    n_rows = 3 * 1000
    body: Any = infer_body(X * 1000, id="large")
    headers = {}
    if compressed:
        body, headers = gzip.compress(json.dumps(body).encode()), {"Content-Encoding": "gzip"}
    answer = running.post(INFER, body, headers).json()
    assert answer["id"] == "large"
    outputs = {output["name"]: output for output in answer["outputs"]}
    assert outputs["label"]["data"] == [10, 30, 20] * 1000
    assert outputs["logits"]["shape"] == [n_rows, 3]
    np.testing.assert_allclose(np.reshape(outputs["logits"]["data"], (-1, 3)), LOGITS * 1000, atol=1e-6)
    by_mlflow = running.post("/invocations", {"inputs": X * 1000}, {"Content-Type": "application/json"}).json()
    assert by_mlflow["predictions"]["label"] == [10, 30, 20] * 1000


def test_errors_in_large_bodies_are_those_of_small_ones(running: Running) -> None:
    for body, status, message in (
        (b"[" * 100_000, 400, "nested too deeply"),
        (b" " * 100_000 + b"{", 400, "not JSON"),
        (infer_body([*X * 1000, [0, 0, 0, 1e39]]), 422, "row 3000, feature 3: expected a finite float32"),
        (infer_body(X * 2000), 422, "expected at most 4096 rows in a request, found 6000"),
        ({"inputs": [{"name": "features", "datatype": "FP32", "shape": [3, 4], "data": [0] * 99999}]}, 422, "needs 12"),
    ):
        answer = running.post(INFER, body)
        assert answer.status == status, answer.body
        assert message in answer.json()["error"]


def test_a_large_binary_tensor(running: Running) -> None:
    rows = np.tile(np.array(X, "<f8"), (1365, 1))
    rows = np.concatenate([rows, rows[:1]])
    client = triton.InferenceServerClient(running.url)
    tensor = triton.InferInput("features", rows.shape, "FP64")
    tensor.set_data_from_numpy(rows)
    assert client.infer("plain", [tensor]).as_numpy("label").tolist() == [10, 30, 20] * 1365 + [10]
    client.close()


def test_a_worker_passes_results_and_exceptions_on_and_is_started_again() -> None:
    workers = Workers(1)

    async def scenario() -> None:
        assert await workers.call(parse_json, b'{"a": 1}') == {"a": 1}
        with pytest.raises(BadRequestError, match="not JSON"):
            await workers.call(parse_json, b"{")
        first = await workers.call(os.getpid)
        assert first != os.getpid()
        with pytest.raises(BusyError, match="was ended"):
            await workers.call(os.kill, first, signal.SIGKILL)
        assert await workers.call(os.getpid) not in (first, os.getpid())

    asyncio.run(scenario())
    workers.close()
