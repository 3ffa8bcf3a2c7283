"""The ASGI application: paths to endpoints. HTTP ends here; what an endpoint does is in the modules it calls."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from lcml_serving import __version__
from lcml_serving.body import respond
from lcml_serving.docs_page import HEADERS, render_page
from lcml_serving.edge import MODEL_KEY, Edge
from lcml_serving.errors import BadRequestError
from lcml_serving.explain import explain_rows, explainable, top_k_of
from lcml_serving.features import check_finite, parse_json, to_json
from lcml_serving.metrics import CONTENT_TYPE
from lcml_serving.mlflow_protocol import parse_invocation, render_invocation
from lcml_serving.oip import EXTENSIONS, InferRequest, header_end, model_metadata, parse_infer, render_infer
from lcml_serving.openapi import describe
from lcml_serving.repository import Served
from lcml_serving.service import LARGE, Service
from lcml_serving.signature import Signature
from lcml_serving.tensors import HEADER_LENGTH

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]

_MAX_COMMAND_BYTES = 65_536  # of bodies that say what to do with the repository
_LARGE_BINARY = 2**20  # bytes of binary tensors; above them a thread takes them apart, which needs the lock little


def create_app(service: Service, lifespan: Lifespan | None = None) -> Starlette:
    at = _Endpoints(service)
    model, version = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
    routes = [
        Route(prefix + suffix, endpoint, methods=[method])
        for prefix in (model, version)
        for suffix, endpoint, method in (
            ("/infer", at.infer, "POST"),
            ("/explain", at.explain, "POST"),
            ("/ready", at.model_ready, "GET"),
            ("", at.metadata, "GET"),
        )
    ]
    routes += [
        Route("/invocations", at.invocations, methods=["POST"]),
        Route("/v2/health/live", at.live),
        Route("/v2/health/ready", at.ready),
        Route("/v2", at.server_metadata),
        Route("/v2/repository/index", at.index, methods=["GET", "POST"]),
        Route("/v2/repository/models/{name}/load", at.load, methods=["POST"]),
        Route("/ping", at.ping),
        Route("/version", at.version),
        Route("/metrics", at.metrics),
        Route("/openapi.json", at.openapi),
        Route("/docs", at.docs),
    ]
    middleware = [Middleware(Edge, service=service)]
    if service.tracing is not None:
        from lcml_serving.tracing import Traced

        middleware.insert(0, Middleware(Traced, tracing=service.tracing))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _answer_http_exception},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class _Endpoints:
    """One method per endpoint; its name is the endpoint's label in the metrics."""

    def __init__(self, service: Service) -> None:
        self._service, self._settings, self._repository = service, service.settings, service.repository

    async def infer(self, request: Request) -> Response:
        served = self._served(request)
        model = served.model.signature
        body = await self._service.bodies.read(request)
        with self._service.slot():
            with self._service.stage("decode", model):
                wanted = await self._parse(request, body, model, self._settings.max_rows)
            arrays = await served.predicted(wanted.inputs)
            size = sum(arrays[name].size for name, binary in wanted.outputs.items() if not binary)
            with self._service.stage("encode", model):
                rendered = await self._service.off_loop(size, render_infer, wanted.id, wanted.outputs, model, arrays)
                content, header_length = rendered
                if header_length is None:
                    return await respond(request, content)
                return await respond(request, content, "application/octet-stream", {HEADER_LENGTH: str(header_length)})

    async def explain(self, request: Request) -> Response:
        served = self._served(request)
        model = served.model.signature
        conditions = explainable(served.model)
        body = await self._service.bodies.read(request)
        with self._service.slot():
            with self._service.stage("decode", model):
                wanted = await self._parse(request, body, model, self._settings.max_explain_rows)
                top_k = top_k_of(wanted.parameters)
            labels, contributions = await served.explain.submit(*wanted.inputs)
            check_finite({"contributions": contributions})
            answer: dict[str, Any] = {"model_name": model.name, "model_version": model.version}
            if wanted.id is not None:
                answer["id"] = wanted.id
            with self._service.stage("encode", model):
                # sorting many contributions takes long enough to keep other requests waiting
                rows = await asyncio.to_thread(explain_rows, conditions, labels, contributions, top_k)
                answer["explanations"] = rows
                size = sum(len(row["contributions"]) for row in rows)
                return await respond(request, await self._service.off_loop(size, to_json, answer))

    async def invocations(self, request: Request) -> Response:
        served = self._repository.default()
        model = served.model.signature
        request.scope[MODEL_KEY] = (model.name, model.version)
        body = await self._service.bodies.read(request)
        with self._service.slot():
            given = body, request.headers.get("content-type", ""), model, self._settings.max_rows
            with self._service.stage("decode", model):
                inputs = await self._service.off_loop(len(body), parse_invocation, *given)
            arrays = await served.predicted(inputs)
            size = sum(array.size for array in arrays.values())
            with self._service.stage("encode", model):
                return await respond(request, await self._service.off_loop(size, render_invocation, arrays))

    async def load(self, request: Request) -> Response:
        body = await self._service.bodies.read(request, _MAX_COMMAND_BYTES)
        if body.strip() and parse_json(body).get("parameters"):
            raise BadRequestError("parameters: not supported; the service loads what the repository holds")
        with self._service.slot():
            await self._repository.reload(request.path_params["name"])
            return JSONResponse({})

    async def index(self, request: Request) -> Response:
        entries = self._repository.index()
        if request.method == "POST":
            body = await self._service.bodies.read(request, _MAX_COMMAND_BYTES)
            only_ready = parse_json(body).get("ready", False) if body.strip() else False
            if not isinstance(only_ready, bool):
                raise BadRequestError("ready: expected true or false")
            entries = [entry for entry in entries if entry["state"] == "READY" or not only_ready]
        return JSONResponse(entries)

    async def metadata(self, request: Request) -> Response:
        model = self._served(request).model
        name, version = model.signature.name, model.signature.version
        versions = sorted(self._repository.table.get(name, {version: None}), key=int)
        return JSONResponse(model_metadata(model.signature, versions, model.parameters))

    async def model_ready(self, request: Request) -> Response:
        name = self._served(request).model.signature.name
        ready = not self._service.draining
        return JSONResponse({"name": name, "ready": ready}, 200 if ready else 503)

    async def live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        ready = self._service.ready
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def ping(self, _: Request) -> Response:
        return PlainTextResponse("\n", 200 if self._service.ready else 503)

    async def server_metadata(self, _: Request) -> Response:
        return JSONResponse({"name": "lcml_serving", "version": __version__, "extensions": EXTENSIONS})

    async def version(self, _: Request) -> Response:
        return PlainTextResponse(__version__)

    async def metrics(self, request: Request) -> Response:
        return await respond(request, self._service.render_metrics(), CONTENT_TYPE)

    async def openapi(self, request: Request) -> Response:
        return await respond(request, to_json(describe(self._settings, self._signatures())))

    async def docs(self, request: Request) -> Response:
        return await respond(request, render_page(describe(self._settings, self._signatures())), "text/html", HEADERS)

    def _signatures(self) -> list[Signature]:
        """Of the newest version of every model."""
        return [self._repository.get(name).model.signature for name in self._repository.table]

    async def _parse(self, request: Request, body: bytes, model: Signature, max_rows: int) -> InferRequest:
        end = header_end(request.headers.get(HEADER_LENGTH), len(body))
        if end <= LARGE and len(body) > _LARGE_BINARY:
            return await asyncio.to_thread(parse_infer, body, end, model, max_rows)
        return await self._service.off_loop(end, parse_infer, body, end, model, max_rows)

    def _served(self, request: Request) -> Served:
        served = self._repository.get(request.path_params["name"], request.path_params.get("version"))
        request.scope[MODEL_KEY] = (served.model.signature.name, served.model.signature.version)
        return served


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:200]}: {error.detail}; GET /openapi.json describes the service"
    return JSONResponse({"error": message}, error.status_code, headers=dict(error.headers or {}))
