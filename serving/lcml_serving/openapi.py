"""The OpenAPI 3.1 description of the service, as it is set up."""

from collections.abc import Sequence
from typing import Any

from lcml_serving import __version__
from lcml_serving.settings import Settings
from lcml_serving.signature import Column, Signature
from lcml_serving.tensors import DATATYPES

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_LABEL: Json = {"type": ["integer", "string"]}
_FLAG: Json = {"type": "boolean"}

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
_OF_BODIES = (400, 408, 413, 415)  # of every operation that reads one


def describe(settings: Settings, models: Sequence[Signature] = ()) -> Json:
    """The description; it requires a bearer token where the service does. Of each table among the models it has a
    schema, that of a row, with the columns' kinds and categories."""
    rows = {f"RowOf.{model.name}": _row(model.columns) for model in models if model.columns}
    takes_matrix = len(rows) < len(models) or not models
    description: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "lcml serving",
            "version": __version__,
            "description": "Logistic circuits over the Open Inference Protocol v2 and MLflow's scoring protocol.",
        },
        "paths": _paths(),
        "components": {"schemas": _schemas(list(rows), takes_matrix) | rows},
    }
    if settings.token is not None:
        description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"token": []}]
    return description


def _paths() -> Json:
    name, version = (
        {"name": parameter, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for parameter in ("name", "version")
    )
    classified = _json("InferResponse") | {"application/octet-stream": {}}
    of_model: Json = {
        "": {"get": _operation("Metadata of a model", _json("ModelMetadata"), 404)},
        "/ready": {"get": _operation("Whether a model is ready", _json("ModelReady"), 404, probe=True)},
        "/infer": {"post": _operation("Classify", classified, 404, 422, 503, body="InferRequest")},
        "/explain": {
            "post": _operation(
                "The features that made each prediction", _json("ExplainResponse"), 404, 422, 503, body="ExplainRequest"
            )
        },
    }
    paths: Json = {
        prefix + suffix: {"parameters": parameters, **operations}
        for prefix, parameters in (
            ("/v2/models/{name}", [name]),
            ("/v2/models/{name}/versions/{version}", [name, version]),
        )
        for suffix, operations in of_model.items()
    }
    text: Json = {"text/plain": {"schema": _TEXT}}
    page: Json = {"text/html": {"schema": _TEXT}}
    index = _json("Index")
    load, classify = "Load a model again from the repository", "Classify, MLflow's protocol"
    invoke = _operation(classify, _json("InvocationResponse"), 404, 422, 503, body="InvocationRequest")
    invoke["requestBody"]["content"]["text/csv"] = {"schema": _TEXT, "example": "a,b,c\n1,0,2.5\n"}
    return paths | {
        "/invocations": {"post": invoke},
        "/v2/repository/index": {
            "get": _operation("What is served", index),
            "post": _operation("What is served", index, body="IndexRequest", optional=True),
        },
        "/v2/repository/models/{name}/load": {
            "parameters": [name],
            "post": _operation(load, _json("Empty"), 404, 409, 503, body="LoadRequest", optional=True),
        },
        "/v2": {"get": _operation("The server", _json("ServerMetadata"))},
        "/v2/health/live": {"get": _operation("Whether the process lives", _json("Live"), open_=True)},
        "/v2/health/ready": {"get": _operation("Whether to send requests", _json("Ready"), probe=True, open_=True)},
        "/ping": {"get": _operation("Whether to send requests, MLflow's protocol", text, probe=True, open_=True)},
        "/version": {"get": _operation("Version of the service", text)},
        "/metrics": {"get": _operation("Prometheus metrics", text)},
        "/docs": {"get": _operation("This description, to read", page)},
        "/openapi.json": {"get": _operation("This description", {"application/json": {}})},
    }


def _operation(
    summary: str,
    content: Json,
    *errors: int,
    body: str | None = None,
    optional: bool = False,
    probe: bool = False,
    open_: bool = False,
) -> Json:
    """probe: it answers 503 with the same content where the service is not ready; open_: it needs no token."""
    responses: Json = {"200": {"description": "Done", "content": content}}
    for status in sorted({*errors, *(() if open_ else (401,)), 405, *(_OF_BODIES if body else ())}):
        responses[str(status)] = {"description": _ERRORS[status], "content": _json("Error")}
    if probe:
        responses["503"] = {"description": "Not ready", "content": content}
    operation: Json = {"summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": not optional, "content": _json(body)}
    if open_:
        operation["security"] = []
    return operation


def _json(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _object(required: Json, optional: Json | None = None, *, closed: bool = False) -> Json:
    schema: Json = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    return schema | ({"additionalProperties": False} if closed else {})


def _array(items: Json, size: int | None = None) -> Json:
    return {"type": "array", "items": items} | ({} if size is None else {"minItems": size, "maxItems": size})


def _row(columns: Sequence[Column]) -> Json:
    """A row of a table, whose further columns are ignored."""
    of_column: Json = {}
    for column in columns:
        is_text = column.kind in ("category", "ordinal")
        ends = f"{column.n_categories} categories" if is_text else " to ".join(map(str, column.range))
        types = ["string", "boolean", "number"] if is_text else ["number", "string"]
        of_column[column.name] = {"type": types + ["null"] * column.gaps, "description": f"{column.kind}, {ends}"}
        if column.categories:
            of_column[column.name]["examples"] = list(column.categories)
    return _object(of_column)


def _any_of(schemas: Sequence[Json]) -> Json:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _schemas(rows: Sequence[str], takes_matrix: bool) -> Json:
    """rows: the schemas of tables' rows."""
    matrix = _array(_array(_NUMBER))
    described = {"name": _TEXT, "datatype": _TEXT, "shape": _array({"type": "integer"})}
    values = _array({"anyOf": [_NUMBER, _TEXT]})
    tensor = _object(described, {"data": values, "parameters": _object({}, {"binary_data_size": _COUNT})})
    numbers = _array({"anyOf": [_NUMBER, _array(_NUMBER)]})
    input_tensor = _object(
        {
            "name": {"type": "string", "const": "features"},
            "datatype": {"type": "string", "enum": list(DATATYPES)},
            "shape": _array(_COUNT, 2),
            "data": {"description": "Row by row, flat or nested", **numbers},
        }
    )
    cell: Json = {"type": ["number", "string", "boolean", "null"]}
    column = _object(
        {
            "name": {**_TEXT, "description": "A column"},
            "datatype": {"type": "string", "enum": [*DATATYPES, "BYTES"]},
            "shape": {"type": "array", "items": _COUNT, "minItems": 1, "maxItems": 2},
        },
        {"data": {"type": "array", "items": {"anyOf": [cell, _array(cell, 1)]}}, "parameters": _object({})},
    )
    inputs = _any_of([_array(input_tensor, 1)] * takes_matrix + [_array(column)] * bool(rows))
    wanted = _object({"name": _TEXT}, {"parameters": _object({}, {"binary_data": _FLAG})})
    contribution = _object({"index": _COUNT, "condition": _TEXT, "contribution": _NUMBER})
    explanation = _object(
        {"label": _LABEL, "logit": _NUMBER, "bias": _NUMBER, "rest": _NUMBER, "contributions": _array(contribution)}
    )
    model = {"model_name": _TEXT, "model_version": _TEXT}
    columns = _object({"label": _array(_LABEL), "probabilities": matrix})
    of_rows = [{"$ref": f"#/components/schemas/{row}"} for row in rows]
    record = _any_of([{"type": "object", "additionalProperties": _NUMBER}] * takes_matrix + of_rows)
    cells = _any_of([matrix] * takes_matrix + [_array(_array(cell))] * bool(rows))
    split = _object({"data": cells}, {"columns": _array(_TEXT), "index": _array(_LABEL)}, closed=True)
    records = _array(record)
    by_column = [{"type": "object", "additionalProperties": _array(cell)}] * bool(rows)
    arrays = _any_of([matrix] * takes_matrix + by_column + [records] * bool(rows))
    instances = _any_of([matrix] * takes_matrix + [records] * bool(rows))
    entry = _object({"name": _TEXT, "version": _TEXT, "state": {"enum": ["READY", "UNAVAILABLE"]}, "reason": _TEXT})
    tensors = _array(_object(described))
    forms = {"dataframe_split": split, "dataframe_records": records, "inputs": arrays, "instances": instances}
    return {
        "Error": _object({"error": _TEXT}),
        "Empty": _object({}),
        "Live": _object({"live": _FLAG}),
        "Ready": _object({"ready": _FLAG}),
        "ModelReady": _object({"name": _TEXT, "ready": _FLAG}),
        "ServerMetadata": _object({"name": _TEXT, "version": _TEXT, "extensions": _array(_TEXT)}),
        "ModelMetadata": _object(
            {"name": _TEXT, "versions": _array(_TEXT), "platform": _TEXT}
            | {"inputs": tensors, "outputs": tensors, "parameters": _object({})}
        ),
        "InferRequest": _object(
            {"inputs": inputs},
            {"id": _TEXT, "outputs": _array(wanted), "parameters": _object({}, {"binary_data_output": _FLAG})},
        ),
        "InferResponse": _object({**model, "outputs": _array(tensor)}, {"id": _TEXT}),
        "ExplainRequest": _object(
            {"inputs": inputs}, {"id": _TEXT, "parameters": _object({}, {"top_k": {"type": "integer", "minimum": 1}})}
        ),
        "ExplainResponse": _object({**model, "explanations": _array(explanation)}, {"id": _TEXT}),
        "InvocationRequest": {"oneOf": [_object({form: schema}, closed=True) for form, schema in forms.items()]},
        "InvocationResponse": _object({"predictions": columns}),
        "IndexRequest": _object({}, {"ready": _FLAG}),
        "Index": _array(entry),
        "LoadRequest": _object({}, {"parameters": {"type": "object", "maxProperties": 0}}),
    }
