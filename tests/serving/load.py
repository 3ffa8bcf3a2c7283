"""A bounded load on a service of this machine, by clients that check every answer, over HTTP and gRPC.

A client stops, as a load balancer would send no more, once an answer says `Connection: close`; so with a SIGTERM in
the middle every request that was sent must still be answered.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HOST = "127.0.0.1"
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Case:
    """A request, its bytes over HTTP or its message over gRPC, and the answers that are right: one per version of the
    model that may be served."""

    request: Any
    expected: tuple[tuple[Any, tuple[float, ...]], ...]


@dataclass
class Tally:
    """What the clients saw. `lost` are requests that got no answer, `wrong` answers that were not right."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    told_to_close: int = 0

    @property
    def per_second(self) -> float:
        """Requests answered a second."""
        return len(self.latencies) / self.seconds

    def milliseconds(self, quantile: float) -> float:
        """Latency at a quantile."""
        return float(1000 * np.quantile(self.latencies, quantile))


def case(model: str, row: Sequence[float], expected: Sequence[tuple[int, Sequence[float]]]) -> Case:
    """A request for one row as a binary tensor of float32, answered in JSON."""
    content = np.array(row, "<f4").tobytes()
    tensor = {"name": "features", "datatype": "FP32", "shape": [1, len(row)]}
    return http_case(model, [{**tensor, "parameters": {"binary_data_size": len(content)}}], expected, content)


def http_case(
    model: str, tensors: list[dict[str, Any]], expected: Sequence[tuple[Any, Sequence[float]]], content: bytes = b""
) -> Case:
    """A request of these tensors; content: those that are binary."""
    message = {"inputs": tensors, "outputs": [{"name": "label"}, {"name": "probabilities"}]}
    header = json.dumps(message).encode()
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(header) + len(content)}\r\n"
    if content:
        head += f"Inference-Header-Content-Length: {len(header)}\r\n"
    head += f"Content-Type: application/json\r\ntraceparent: 00-{'5' * 32}-{'6' * 16}-01\r\n\r\n"
    return Case(head.encode() + header + content, tuple((label, tuple(values)) for label, values in expected))


def grpc_case(model: str, tensors: list[dict[str, Any]], expected: Sequence[tuple[Any, Sequence[float]]]) -> Case:
    """The same over gRPC, its tensors raw; "data" are numbers or texts."""
    from lcml_serving.grpc_messages import MESSAGES

    inputs, raw = [], []
    for tensor in tensors:
        inputs.append(MESSAGES["InferInputTensor"](**{key: tensor[key] for key in ("name", "datatype", "shape")}))
        texts = [text.encode() for text in tensor["data"]] if tensor["datatype"] == "BYTES" else []
        dtype = "<f4" if tensor["datatype"] == "FP32" else "<f8"
        raw.append(
            b"".join(len(text).to_bytes(4, "little") + text for text in texts)
            or np.array(tensor["data"], dtype).tobytes()
        )
    request = MESSAGES["ModelInferRequest"](model_name=model, inputs=inputs, raw_input_contents=raw)
    return Case(request, tuple((label, tuple(values)) for label, values in expected))


async def run_grpc_load(port: int, cases: Sequence[Case], tally: Tally, *, clients: int, seconds: float) -> None:
    """As `run_load`, over gRPC."""
    started = time.perf_counter()
    async with asyncio.timeout(seconds + _TIMEOUT_SECONDS):
        await asyncio.gather(
            *(_grpc_client(port, cases, started + seconds, random.Random(n), tally) for n in range(clients))
        )
    tally.seconds = time.perf_counter() - started


async def _grpc_client(port: int, cases: Sequence[Case], end: float, chance: random.Random, tally: Tally) -> None:
    import grpc

    from lcml_serving.grpc_messages import MESSAGES, SERVICE

    own = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", own) as channel:
        infer = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=MESSAGES["ModelInferRequest"].SerializeToString,
            response_deserializer=MESSAGES["ModelInferResponse"].FromString,
        )
        while time.perf_counter() < end:
            asked = chance.choice(cases)
            sent = time.perf_counter()
            try:
                answer = await infer(asked.request)
            except grpc.aio.AioRpcError as error:
                tally.lost.append(repr(error))
                return
            tally.latencies.append(time.perf_counter() - sent)
            pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
            found = {output.name: _values(output, raw) for output, raw in pairs}
            _compare(found["label"], found["probabilities"], asked, tally)


def _values(output: Any, raw: bytes) -> list[Any]:
    if output.datatype == "BYTES":
        return [raw[4:].decode()]
    return np.frombuffer(raw, {"INT64": "<i8", "FP32": "<f4", "FP64": "<f8"}[output.datatype]).tolist()  # type: ignore[no-any-return]


async def run_load(port: int, cases: Sequence[Case], tally: Tally, *, clients: int, seconds: float) -> None:
    """Let `clients` ask one request after the other, each on its own connection, for `seconds` at most."""
    started = time.perf_counter()
    async with asyncio.timeout(seconds + _TIMEOUT_SECONDS):
        await asyncio.gather(
            *(_client(port, cases, started + seconds, random.Random(n), tally) for n in range(clients))
        )
    tally.seconds = time.perf_counter() - started


async def see_version(tally: Tally, version: int, clients: int) -> None:
    """Wait until this version answers, and see that from then on no other does."""
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        while version not in tally.seen:
            await asyncio.sleep(0.001)
        await _more_answers(tally, 2 * clients)  # those that were sent before may still be the old version's
        tally.seen.clear()
        await _more_answers(tally, 10 * clients)
    assert tally.seen == {version}
    tally.seen.clear()


async def _more_answers(tally: Tally, number: int) -> None:
    enough = len(tally.latencies) + number
    while len(tally.latencies) < enough:
        await asyncio.sleep(0.001)


async def _client(port: int, cases: Sequence[Case], end: float, chance: random.Random, tally: Tally) -> None:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        while time.perf_counter() < end:
            asked = chance.choice(cases)
            sent = time.perf_counter()
            try:
                writer.write(asked.request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
            except (OSError, asyncio.IncompleteReadError) as error:
                tally.lost.append(repr(error))
                return
            tally.latencies.append(time.perf_counter() - sent)
            _check(head, body, asked, tally)
            if b"connection: close" in head:
                tally.told_to_close += 1
                return
    finally:
        writer.close()


def _check(head: bytes, body: bytes, asked: Case, tally: Tally) -> None:
    if not head.startswith(b"http/1.1 200"):
        tally.wrong.append(f"{head!r} {body!r}")
        return
    label, probabilities = (output["data"] for output in json.loads(body)["outputs"])
    _compare(label, probabilities, asked, tally)


def _compare(label: list[Any], probabilities: Sequence[float], asked: Case, tally: Tally) -> None:
    right = [
        n for n, (want, values) in enumerate(asked.expected) if set(label) == {want} and _close(probabilities, values)
    ]
    tally.seen.update(right)
    if not right:
        tally.wrong.append(f"{label} {probabilities}, expected {asked.expected}")


def _close(found: Any, expected: Sequence[float]) -> bool:
    return len(found) == len(expected) and all(
        abs(one - other) < 1e-5 for one, other in zip(found, expected, strict=True)
    )
