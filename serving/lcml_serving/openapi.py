"""The OpenAPI 3.1 description of the service, as it is set up."""

from typing import Any

from lcml_serving import __version__
from lcml_serving.oip import DATATYPES
from lcml_serving.settings import Settings

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_LABEL: Json = {"type": ["integer", "string"]}
_VALUES: Json = {"type": "array", "items": {"anyOf": [_NUMBER, _TEXT]}}
_MATRIX: Json = {"type": "array", "items": {"type": "array", "items": _NUMBER}}

_ERRORS = {
    400: "Not JSON, not the protocol, or lengths that do not agree",
    401: "No bearer token or a wrong one",
    404: "Not served",
    405: "Not this method",
    408: "The body did not arrive in time",
    409: "What the repository holds cannot be loaded; the versions loaded before stay",
    413: "The body is too large, as sent or decompressed",
    415: "Unknown content type or encoding",
    422: "Wrong shape, type or value (NaN and infinity too), or too many rows",
    503: "Too many requests at once, or going down; try again",
}


def describe(settings: Settings) -> Json:
    """The description; it requires a bearer token where the service does."""
    description: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "lcml serving",
            "version": __version__,
            "description": "Logistic circuits over the Open Inference Protocol v2 and MLflow's scoring protocol.",
        },
        "paths": _paths(),
        "components": {"schemas": _schemas()},
    }
    if settings.token is not None:
        description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"token": []}]
    return description


def _paths() -> Json:
    paths: Json = {}
    name, version = _path_parameter("name"), _path_parameter("version")
    for prefix, parameters in (
        ("/v2/models/{name}", [name]),
        ("/v2/models/{name}/versions/{version}", [name, version]),
    ):
        paths[prefix] = {
            "parameters": parameters,
            "get": _operation("Metadata of a model", _json("ModelMetadata"), (404,)),
        }
        paths[prefix + "/ready"] = {
            "parameters": parameters,
            "get": _operation("Whether a model is ready", _json("ModelReady"), (404, 503), not_ready="ModelReady"),
        }
        for suffix, summary, request, answer in (
            ("/infer", "Classify", "InferRequest", "InferResponse"),
            ("/explain", "The features that made each prediction", "ExplainRequest", "ExplainResponse"),
        ):
            binary: Json = {"application/octet-stream": {}} if suffix == "/infer" else {}
            paths[prefix + suffix] = {
                "parameters": parameters,
                "post": _operation(
                    summary, {**_json(answer), **binary}, (400, 404, 408, 413, 415, 422, 503), body=request
                ),
            }
    paths["/invocations"] = {
        "post": _operation(
            "Classify, MLflow's protocol",
            _json("InvocationResponse"),
            (400, 404, 408, 413, 415, 422, 503),
            body="InvocationRequest",
        )
    }
    csv: Json = {"schema": _TEXT, "example": "a,b,c\n1,0,2.5\n"}
    paths["/invocations"]["post"]["requestBody"]["content"]["text/csv"] = csv
    paths["/v2/repository/index"] = {
        "get": _operation("What is served", _json("Index"), ()),
        "post": _operation("What is served", _json("Index"), (400, 408, 413, 415), body="IndexRequest", optional=True),
    }
    paths["/v2/repository/models/{name}/load"] = {
        "parameters": [name],
        "post": _operation(
            "Load a model again from the repository",
            _json("Empty"),
            (400, 404, 408, 409, 413, 415, 503),
            body="LoadRequest",
            optional=True,
        ),
    }
    paths["/v2"] = {"get": _operation("The server", _json("ServerMetadata"), ())}
    paths["/v2/health/live"] = {"get": _operation("Whether the process lives", _json("Live"), (), open_=True)}
    paths["/v2/health/ready"] = {
        "get": _operation("Whether to send requests", _json("Ready"), (503,), not_ready="Ready", open_=True)
    }
    text: Json = {"text/plain": {"schema": _TEXT}}
    ping = _operation("Whether to send requests, MLflow's protocol", text, (), open_=True)
    ping["responses"]["503"] = {"description": "Not ready", "content": text}
    paths["/ping"] = {"get": ping}
    paths["/version"] = {"get": _operation("Version of the service", text, ())}
    paths["/metrics"] = {"get": _operation("Prometheus metrics", text, ())}
    page: Json = {"text/html": {"schema": _TEXT}}
    paths["/docs"] = {"get": _operation("This description, to read", page, ())}
    paths["/openapi.json"] = {"get": _operation("This description", {"application/json": {}}, ())}
    return paths


def _operation(
    summary: str,
    content: Json,
    errors: tuple[int, ...],
    *,
    body: str | None = None,
    optional: bool = False,
    not_ready: str | None = None,
    open_: bool = False,
) -> Json:
    responses: Json = {"200": {"description": "Done", "content": content}}
    for status in sorted({*errors, 405} if open_ else {*errors, 401, 405}):
        responses[str(status)] = {"description": _ERRORS[status], "content": _json("Error")}
    if not_ready is not None:
        responses["503"] = {"description": "Not ready", "content": _json(not_ready)}
    operation: Json = {"summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": not optional, "content": _json(body)}
    if open_:
        operation["security"] = []
    return operation


def _path_parameter(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _json(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _object(required: Json, optional: Json | None = None, *, closed: bool = False) -> Json:
    schema: Json = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    if closed:
        schema["additionalProperties"] = False
    return schema


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _schemas() -> Json:
    tensor = _object(
        {"name": _TEXT, "datatype": _TEXT, "shape": _array({"type": "integer"})},
        {"data": _VALUES, "parameters": _object({}, {"binary_data_size": _COUNT})},
    )
    input_tensor = _object(
        {
            "name": {"type": "string", "const": "features"},
            "datatype": {"type": "string", "enum": list(DATATYPES)},
            "shape": {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2},
            "data": {
                "description": "Row by row, flat or nested",
                "type": "array",
                "items": {"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER}]},
            },
        }
    )
    inputs: Json = {"type": "array", "items": input_tensor, "minItems": 1, "maxItems": 1}
    wanted = _object({"name": _TEXT}, {"parameters": _object({}, {"binary_data": {"type": "boolean"}})})
    contribution = _object({"index": _COUNT, "condition": _TEXT, "contribution": _NUMBER})
    explanation = _object(
        {"label": _LABEL, "logit": _NUMBER, "bias": _NUMBER, "rest": _NUMBER, "contributions": _array(contribution)}
    )
    model = {"model_name": _TEXT, "model_version": _TEXT}
    columns = _object({"label": _array(_LABEL), "probabilities": _MATRIX})
    split = _object({"data": _MATRIX}, {"columns": _array(_TEXT), "index": _array(_LABEL)}, closed=True)
    entry = _object({"name": _TEXT, "version": _TEXT, "state": {"enum": ["READY", "UNAVAILABLE"]}, "reason": _TEXT})
    flag: Json = {"type": "boolean"}
    described = _object({"name": _TEXT, "datatype": _TEXT, "shape": _array({"type": "integer"})})
    return {
        "Error": _object({"error": _TEXT}),
        "Empty": _object({}),
        "Live": _object({"live": flag}),
        "Ready": _object({"ready": flag}),
        "ModelReady": _object({"name": _TEXT, "ready": flag}),
        "ServerMetadata": _object({"name": _TEXT, "version": _TEXT, "extensions": _array(_TEXT)}),
        "ModelMetadata": _object(
            {
                "name": _TEXT,
                "versions": _array(_TEXT),
                "platform": _TEXT,
                "inputs": _array(described),
                "outputs": _array(described),
                "parameters": _object({}),
            }
        ),
        "InferRequest": _object(
            {"inputs": inputs},
            {"id": _TEXT, "outputs": _array(wanted), "parameters": _object({}, {"binary_data_output": flag})},
        ),
        "InferResponse": _object({**model, "outputs": _array(tensor)}, {"id": _TEXT}),
        "ExplainRequest": _object(
            {"inputs": inputs}, {"id": _TEXT, "parameters": _object({}, {"top_k": {"type": "integer", "minimum": 1}})}
        ),
        "ExplainResponse": _object({**model, "explanations": _array(explanation)}, {"id": _TEXT}),
        "InvocationRequest": {
            "oneOf": [
                _object({"dataframe_split": split}, closed=True),
                _object(
                    {"dataframe_records": _array({"type": "object", "additionalProperties": _NUMBER})}, closed=True
                ),
                _object({"inputs": _MATRIX}, closed=True),
                _object({"instances": _MATRIX}, closed=True),
            ]
        },
        "InvocationResponse": _object({"predictions": columns}),
        "IndexRequest": _object({}, {"ready": flag}),
        "Index": _array(entry),
        "LoadRequest": _object({}, {"parameters": {"type": "object", "maxProperties": 0}}),
    }
