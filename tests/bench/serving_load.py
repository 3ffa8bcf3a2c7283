"""Load on the service, loopback only and bounded: throughput and latency with batching on and off, then a long run
with reloads and a SIGTERM in the middle in which no request may be lost or wrong, and one of a model of a table over
HTTP and gRPC together with reloads, drift counted and traces sent.

    python -m tests.bench.serving_load [--model FILE.onnx] [--seconds 60] [--each 5] [--idle 1100] [--both 120]

Prints a Markdown table and ends with exit code 1 where a request was lost or wrong. Clients and service share the
machine, so the figures are a lower bound for the service.
"""

import argparse
import asyncio
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lcml_export import export_model
from lcml_serving.models import load_model
from tests.export.tables import ROWS, table_model
from tests.runs.test_reference import EXPECTED
from tests.serving.load import HOST, Case, Tally, case, grpc_case, http_case, run_grpc_load, run_load
from tests.serving.onnx_models import write_model
from tests.serving.running import open_files, start
from tests.serving.test_tracing import Collector

N_CASES = 64
CLIENTS = (1, 8, 32, 64)
SETUPS = {"off": ["--max-batch-size", "1"], "on": [], "on, waits 1 ms": ["--max-batch-delay-ms", "1"]}
RELOAD_SECONDS = 2.0
OPEN_FILES = 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="default: a small linear model")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the long run, 0 leaves it out")
    parser.add_argument("--each", type=float, default=5.0, help="seconds of each row of the table, 0 leaves it out")
    parser.add_argument("--idle", type=int, default=0, help="connections of the long run that send half a head")
    parser.add_argument(
        "--both", type=float, default=0.0, help="seconds of the run over HTTP and gRPC, 0 leaves it out"
    )
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        model = arguments.model or write_model(Path(directory) / "linear.onnx")
        cases = _cases(model)
        setups = [(batching, clients) for batching in SETUPS for clients in CLIENTS if arguments.each]
        bad = sum(_table_row(model, cases, batching, clients, arguments.each) for batching, clients in setups)
        if arguments.seconds:
            bad += _long_run(model, cases, arguments.seconds, arguments.idle)
        if arguments.both:
            bad += _run_of_both(Path(directory), arguments.both)
    return 1 if bad else 0


def _cases(path: Path) -> list[Case]:
    model = load_model(path, "model", "1", 1)
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 2, (N_CASES, model.signature.n_features)).astype(np.float32)
    labels, probabilities = model.run(("label", "probabilities"), rows.astype(model.signature.input.dtype))
    answers = zip(rows.tolist(), labels.tolist(), probabilities.tolist(), strict=True)
    return [case("model", row, [(label, values)]) for row, label, values in answers]


def _table_row(path: Path, cases: Sequence[Case], batching: str, clients: int, seconds: float) -> int:
    running = start(path, "--name", "model", "--access-log", "off", *SETUPS[batching])
    warm_up, tally = Tally(), Tally()
    asyncio.run(run_load(running.port, cases, warm_up, clients=clients, seconds=0.5))
    asyncio.run(run_load(running.port, cases, tally, clients=clients, seconds=seconds))
    metrics = running.get("/metrics").body.decode().splitlines()
    rows, runs = (
        float(next(line for line in metrics if line.startswith(f"lcml_batch_rows_{part}")).split()[-1])
        for part in ("sum", "count")
    )
    running.stop()
    if batching == next(iter(SETUPS)) and clients == CLIENTS[0]:
        print("| batching | clients | requests/s | p50 ms | p99 ms | mean batch |\n|---|---|---|---|---|---|")
    print(
        f"| {batching} | {clients} | {tally.per_second:,.0f} | {tally.milliseconds(0.5):.2f} "
        f"| {tally.milliseconds(0.99):.2f} | {rows / runs:.1f} |",
        flush=True,
    )
    return len(tally.lost) + len(tally.wrong)


def _long_run(path: Path, cases: Sequence[Case], seconds: float, n_idle: int) -> int:
    with open_files(OPEN_FILES):
        running = start(path, "--name", "model", "--access-log", "off", "--drain-seconds", "2")
    tally = Tally()
    idle: list[socket.socket] = []

    def connect_again() -> None:
        """Keep so many connections open that half of them are always too many, or too old."""
        for old in idle:
            old.close()
        idle[:] = [socket.create_connection((HOST, running.port)) for _ in range(n_idle)]
        for client in idle:
            client.sendall(b"GET /v2 HTTP/1.1\r\nHo")

    async def scenario() -> int:
        load = asyncio.ensure_future(run_load(running.port, cases, tally, clients=16, seconds=seconds + 60))
        end = time.monotonic() + seconds
        n_reloads = 0
        while time.monotonic() < end:
            await asyncio.to_thread(connect_again)
            await asyncio.sleep(min(RELOAD_SECONDS, seconds / 4))
            answer = await asyncio.to_thread(running.post, "/v2/repository/models/model/load")
            assert answer.status == 200
            n_reloads += 1
        running.signal(signal.SIGTERM)
        await load
        return n_reloads

    n_reloads = asyncio.run(scenario())
    code = running.stop()
    for client in idle:
        client.close()
    print(
        f"\n{tally.seconds:.0f} s, 16 clients, {n_idle} idle connections at {OPEN_FILES} open files, "
        f"{n_reloads} reloads, then SIGTERM under load: {len(tally.latencies):,} requests answered, "
        f"{len(tally.lost)} lost, {len(tally.wrong)} wrong, exit code {code}; "
        f"p50 {tally.milliseconds(0.5):.2f} ms, p99 {tally.milliseconds(0.99):.2f} ms, "
        f"worst {tally.milliseconds(1.0):.1f} ms"
    )
    return len(tally.lost) + len(tally.wrong) + code


def _run_of_both(directory: Path, seconds: float) -> int:
    """Sixteen clients each over HTTP and gRPC."""
    path, http, grpc = table_cases(directory)
    collector = Collector()
    running = start(path, "--name", "model", "--access-log", "off", "--grpc-port", "0", environ=collector.environ)
    by_http, by_grpc, megabytes, counted = Tally(), Tally(), list[float](), list[float]()
    port = running.wait_for("listening")["grpc_port"]

    async def scenario() -> None:
        both = asyncio.gather(
            run_load(running.port, http, by_http, clients=16, seconds=seconds),
            run_grpc_load(port, grpc, by_grpc, clients=16, seconds=seconds),
        )
        while not both.done():
            await asyncio.wait([both], timeout=RELOAD_SECONDS)
            metrics = (await asyncio.to_thread(running.get, "/metrics")).body.decode()
            counted.append(
                float(metrics.split("\nlcml_drift_rows{")[1].split()[1])
            )  # a model that is loaded begins anew
            answer = await asyncio.to_thread(running.post, "/v2/repository/models/model/load")
            assert answer.status == 200
            status = Path(f"/proc/{running.process.pid}/status").read_text()
            megabytes.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
        await both

    asyncio.run(scenario())
    code = running.stop()
    lost, wrong = by_http.lost + by_grpc.lost, by_http.wrong + by_grpc.wrong
    quarters = " ".join(f"{np.median(part):.0f}" for part in np.array_split(megabytes, 4))
    spans = Counter(span.name for span in collector.spans())
    print(
        f"\n{seconds:.0f} s, 16 clients over HTTP and 16 over gRPC, {len(megabytes)} reloads: "
        f"{len(by_http.latencies):,} and {len(by_grpc.latencies):,} requests answered, {len(lost)} lost, "
        f"{len(wrong)} wrong, exit code {code}; resident memory by quarters of the time {quarters} MB; "
        f"spans received {dict(spans)}; rows of drift between reloads {min(counted):,.0f} to {max(counted):,.0f}"
    )
    print(*(lost + wrong)[:5], sep="\n")
    return len(lost) + len(wrong) + code


def table_cases(directory: Path) -> tuple[Path, list[Case], list[Case]]:
    """A model of a table with the shares of its training, and requests of one row over HTTP and gRPC."""
    told = {"reference": {"classes": {"no": 0.2, "yes": 0.4, "maybe": 0.4}, "columns": EXPECTED}}
    path = directory / "table.onnx"
    export_model(replace(table_model(), provenance=told), path, self_check=False)
    model = load_model(path, "model", "1", 1)
    http, grpc = [], []
    for i in range(len(ROWS["age"])):
        listed, raw = [], []
        for spec in model.signature.inputs:
            value = ROWS[spec.name][i]
            tensor = {"name": spec.name, "datatype": spec.datatype, "shape": [1, 1]}
            listed.append({**tensor, "data": [value]})
            raw.append({**tensor, "data": ["" if spec.datatype == "BYTES" else np.nan] if value is None else [value]})
        inputs = [np.array([t["data"]], s.dtype) for t, s in zip(raw, model.signature.inputs, strict=True)]
        label, probabilities = model.run(("label", "probabilities"), *inputs)
        expected = [(label[0], probabilities[0].tolist())]
        http.append(http_case("model", listed, expected))
        grpc.append(grpc_case("model", raw, expected))
    return path, http, grpc


if __name__ == "__main__":
    sys.exit(main())
