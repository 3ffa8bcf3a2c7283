"""Bodies in and out: read with a cap and a deadline, gzip and deflate both ways."""

import asyncio
import zlib
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from lcml_serving.errors import (
    BadRequestError,
    BodyTooLargeError,
    BusyError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
    short,
)

# zlib's wbits: gzip header, zlib header (what HTTP calls deflate)
_WINDOW_BITS: Mapping[str, int] = {"gzip": 31, "deflate": 15}
_COMPRESS_FROM = 4_096  # bytes; below it the headers of the encoding eat the gain
# bytes that take about a millisecond; above them a thread does it, which gives the interpreter's lock away meanwhile
_DECOMPRESS_HERE = 4_096  # zlib unpacks a thousand times as much at most
_COMPRESS_HERE = 65_536
_DISCARD_FACTOR = 4  # how much of a body that is too large is read, as a multiple of the cap, so that the client
# gets its answer instead of a broken connection


class Bodies:
    """Reads the bodies of requests, with a cap on each, on all that are under way together, and on the time."""

    def __init__(self, max_bytes: int, max_bytes_together: int, timeout_seconds: float) -> None:
        self._max_bytes, self._timeout_seconds = max_bytes, timeout_seconds
        self._max_bytes_together, self._n_together = max_bytes_together, 0

    async def read(self, request: Request, max_bytes: int | None = None) -> bytes:
        """The decompressed body, at most `max_bytes` where given.

        Raises BodyTooLargeError where it is too large as sent or decompressed, RequestTimeoutError where it takes too
        long to arrive, BusyError where too much arrives at once, UnsupportedMediaTypeError and BadRequestError where
        it cannot be decompressed.
        """
        max_bytes = min(max_bytes or self._max_bytes, self._max_bytes)
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity" and encoding not in _WINDOW_BITS:
            message = f"content encoding: expected gzip, deflate or identity, found {short(encoding)}"
            raise UnsupportedMediaTypeError(message)
        too_large = BodyTooLargeError(f"the body is above {max_bytes} bytes; send several requests")
        length = request.headers.get("content-length", "0")
        declared = int(length) if length.isascii() and length.isdecimal() and len(length) < 19 else max_bytes + 1
        if declared > max_bytes and (declared > _DISCARD_FACTOR * max_bytes or "expect" in request.headers):
            raise too_large
        try:
            async with asyncio.timeout(self._timeout_seconds):
                body = await self._collect(request, max_bytes, too_large)
        except TimeoutError:
            raise RequestTimeoutError(f"the body did not arrive within {self._timeout_seconds:g} s") from None
        if encoding == "identity":
            return body
        if len(body) <= _DECOMPRESS_HERE:
            return _decompress(body, encoding, max_bytes)
        return await asyncio.to_thread(_decompress, body, encoding, max_bytes)

    async def _collect(self, request: Request, max_bytes: int, too_large: BodyTooLargeError) -> bytes:
        chunks: list[bytes] = []
        n_bytes = n_kept = 0
        try:
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes > _DISCARD_FACTOR * max_bytes:
                    raise too_large
                if n_bytes <= max_bytes:
                    chunks.append(chunk)
                    n_kept += len(chunk)
                    self._n_together += len(chunk)
                    if self._n_together > self._max_bytes_together:
                        message = f"{self._max_bytes_together} bytes of bodies are under way, the limit; try again"
                        raise BusyError(message)
        finally:
            self._n_together -= n_kept
        if n_bytes > max_bytes:
            raise too_large
        return b"".join(chunks)


async def respond(
    request: Request, body: bytes, media_type: str = "application/json", headers: Mapping[str, str] | None = None
) -> Response:
    """An answer with status 200, compressed where it is large and the client asks for it."""
    headers = {**(headers or {}), "vary": "accept-encoding"}
    encoding = _accepted(request.headers.get("accept-encoding", "")) if len(body) >= _COMPRESS_FROM else None
    if encoding is not None:
        headers["content-encoding"] = encoding
        is_large = len(body) > _COMPRESS_HERE
        body = await asyncio.to_thread(_compress, body, encoding) if is_large else _compress(body, encoding)
    return Response(body, media_type=media_type, headers=headers)


def _compress(body: bytes, encoding: str) -> bytes:
    compressor = zlib.compressobj(level=1, wbits=_WINDOW_BITS[encoding])
    return compressor.compress(body) + compressor.flush()


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
