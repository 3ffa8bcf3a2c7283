"""Bodies in and out: read with a cap and a deadline, gzip and deflate both ways."""

import asyncio
import json
import zlib
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lcml_serving.errors import BadRequestError, BodyTooLargeError, RequestTimeoutError, UnsupportedMediaTypeError

# zlib's wbits: gzip header, zlib header (what HTTP calls deflate)
_WINDOW_BITS: Mapping[str, int] = {"gzip": 31, "deflate": 15}
_COMPRESS_FROM = 4_096  # bytes; below it the headers of the encoding eat the gain
_DISCARD_FACTOR = 4  # how much of a body that is too large is read, as a multiple of the cap, so that the client
# gets its answer instead of a broken connection


async def read_body(request: Request, max_bytes: int, timeout_seconds: float) -> bytes:
    """The decompressed body.

    Raises BodyTooLargeError where it is above `max_bytes` as sent or decompressed, RequestTimeoutError where it takes
    longer than `timeout_seconds` to arrive, UnsupportedMediaTypeError and BadRequestError where it cannot be
    decompressed.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in _WINDOW_BITS:
        raise UnsupportedMediaTypeError(
            f"content encoding: expected gzip, deflate or identity, found {encoding[:40]!r}"
        )
    too_large = BodyTooLargeError(f"the body is above {max_bytes} bytes; send several requests")
    length = request.headers.get("content-length", "0")
    declared = int(length) if length.isascii() and length.isdecimal() and len(length) < 19 else max_bytes + 1
    if declared > max_bytes and (declared > _DISCARD_FACTOR * max_bytes or "expect" in request.headers):
        raise too_large
    chunks: list[bytes] = []
    n_bytes = 0
    try:
        async with asyncio.timeout(timeout_seconds):
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes <= max_bytes:
                    chunks.append(chunk)
                elif n_bytes > _DISCARD_FACTOR * max_bytes:
                    raise too_large
    except TimeoutError:
        raise RequestTimeoutError(f"the body did not arrive within {timeout_seconds:g} s") from None
    if n_bytes > max_bytes:
        raise too_large
    body = b"".join(chunks)
    return body if encoding == "identity" else _decompress(body, encoding, max_bytes)


def respond(
    request: Request, body: bytes, media_type: str = "application/json", headers: Mapping[str, str] | None = None
) -> Response:
    """An answer with status 200, compressed where it is large and the client asks for it."""
    headers = {**(headers or {}), "vary": "accept-encoding"}
    encoding = _accepted(request.headers.get("accept-encoding", "")) if len(body) >= _COMPRESS_FROM else None
    if encoding is not None:
        compressor = zlib.compressobj(level=1, wbits=_WINDOW_BITS[encoding])
        body = compressor.compress(body) + compressor.flush()
        headers["content-encoding"] = encoding
    return Response(body, media_type=media_type, headers=headers)


def to_json(value: Any) -> bytes:
    """Compact JSON; NaN and infinity are a bug here, checked before."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _decompress(body: bytes, encoding: str, max_bytes: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=_WINDOW_BITS[encoding])
    try:
        content = decompressor.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise BadRequestError(f"the body is not {encoding}: {error}") from error
    if len(content) > max_bytes:
        raise BodyTooLargeError(f"the body is above {max_bytes} bytes when decompressed; send several requests")
    if not decompressor.eof or decompressor.unused_data:
        raise BadRequestError(f"the {encoding} body is cut short or followed by other bytes")
    return content


def _accepted(header: str) -> str | None:
    for item in header.lower().split(","):
        name, _, parameters = item.partition(";")
        if name.strip() in _WINDOW_BITS and parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return name.strip()
    return None
