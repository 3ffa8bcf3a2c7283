"""What surrounds every request: id, bearer token, metrics, log line, and an answer whatever happens inside."""

import asyncio
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lcml_serving.errors import BusyError, RequestError
from lcml_serving.logs import log
from lcml_serving.service import Service

# Probes come from machines that have no token, and tell nothing.
OPEN_PATHS = frozenset({"/v2/health/live", "/v2/health/ready", "/ping"})
MODEL_KEY = "lcml_serving.model"  # scope entry: (name, version) of the model that the request was about

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_PATH_LOGGED = 200
CLIENT_GONE = 499  # nginx's number for it; nobody receives it


class Edge:
    """ASGI middleware around the routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        # not a redirect: that would name the host that the client named
        scope["path"] = scope["path"].rstrip("/") or "/"
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer = MutableHeaders(scope=message)
                answer["x-request-id"] = request_id
                if self._service.draining:
                    answer["connection"] = "close"
            await send(message)

        try:
            if scope["path"] not in OPEN_PATHS:
                self._service.check_token(headers.get("authorization", ""))
            await self._app(scope, receive, send_with_headers)
        except RequestError as error:
            await error_response(error)(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = CLIENT_GONE
        except asyncio.CancelledError:  # time is up for what is in flight; uvicorn would log it as a failure
            if status == 0:
                down = BusyError("the service is going down; ask another or try again")
                await error_response(down)(scope, receive, send_with_headers)
        except Exception:
            log.exception("request failed", extra={"request_id": request_id, "path": scope["path"][:_PATH_LOGGED]})
            if status == 0:
                message = f"internal error; the service's log tells more under request id {request_id}"
                await JSONResponse({"error": message}, 500)(scope, receive, send_with_headers)
        finally:
            self._record(scope, request_id, status, time.perf_counter() - started)

    def _record(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        endpoint = getattr(scope.get("endpoint"), "__name__", "none")
        model, version = scope.get(MODEL_KEY, ("", ""))
        self._service.metrics.count(endpoint, model, version, status, seconds)
        if self._service.settings.access_log == "on":
            log.info(
                "request",
                extra={
                    "request_id": request_id,
                    "method": scope["method"],
                    "path": scope["path"][:_PATH_LOGGED],
                    "status": status,
                    "milliseconds": round(1000 * seconds, 3),
                    "client": (scope.get("client") or ("",))[0],
                }
                | ({"model": model, "version": version} if model else {}),
            )


def error_response(error: RequestError) -> JSONResponse:
    """`{"error": message}` with the error's status and headers."""
    return JSONResponse({"error": str(error)}, error.status, headers=dict(error.headers))
