"""MLflow's scoring protocol: what `mlflow models serve` takes on /invocations, and its answers.

CSV, `dataframe_split` and `dataframe_records` are tables, `inputs` and `instances` arrays. All are answered with a
list per output, {"predictions": {"label": [...], "probabilities": [[...], ...]}}, as MLflow's own server answers for
an ONNX model whose signature is a tensor.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lcml_serving.columns import to_inputs
from lcml_serving.csv_table import parse_csv
from lcml_serving.errors import BadRequestError, UnprocessableError, UnsupportedMediaTypeError, short
from lcml_serving.features import check_rows, numbers, parse_json, to_features, to_json
from lcml_serving.signature import Array, Signature
from lcml_serving.table_forms import csv_columns, json_columns

FORMS = ("dataframe_split", "dataframe_records", "inputs", "instances")


def parse_invocation(body: bytes, content_type: str, model: Signature, max_rows: int) -> tuple[Array, ...]:
    """The inputs of a scoring request, in the dtypes of the model's.

    Of a table model every form names the columns, in any order, and may have more than the model takes. Of
    another a table whose columns are the model's feature names may have them in any order, as may one whose columns are
    numbered from 0; else a model without feature names takes the columns as they come. Raises
    UnsupportedMediaTypeError, BadRequestError and UnprocessableError.
    """
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip().lower()
    if media_type not in ("application/json", "text/csv"):
        raise UnsupportedMediaTypeError(
            f"expected content type application/json or text/csv, found {short(content_type)}"
        )
    if parameters.strip() and parameters.strip().lower().replace('"', "") != "charset=utf-8":
        raise UnsupportedMediaTypeError("expected no parameter of the content type but charset=utf-8")
    if media_type == "text/csv":
        if model.columns:
            return to_inputs(csv_columns(body, model, max_rows), model, max_rows)
        names, table = parse_csv(body, model.feature_names, max_rows)
        return (to_features(_ordered(table, names, model), model, max_rows),)
    message = parse_json(body)
    forms = [form for form in FORMS if form in message]
    if len(forms) != 1 or message.keys() - {forms[0], "params"}:
        raise BadRequestError(f"expected one of the keys {', '.join(FORMS)}, found {short(sorted(message))}")
    if message.get("params"):
        raise UnprocessableError("params: expected none; the model takes no parameters")
    form, content = forms[0], message[forms[0]]
    if model.columns:
        return to_inputs(json_columns(content, form, model, max_rows), model, max_rows)
    if form == "dataframe_split":
        columns, values = _split(content, model, max_rows)
    elif form == "dataframe_records":
        columns, values = _records(content, model, max_rows)
    else:
        return (to_features(_tensor(content, form, model, max_rows), model, max_rows),)
    return (to_features(_ordered(values, columns, model), model, max_rows),)


def render_invocation(outputs: Mapping[str, Array]) -> bytes:
    return to_json({"predictions": {name: array.tolist() for name, array in outputs.items()}})


def _split(content: Any, model: Signature, max_rows: int) -> tuple[list[Any] | None, Array]:
    if not isinstance(content, dict) or "data" not in content or content.keys() - {"columns", "index", "data"}:
        raise BadRequestError("dataframe_split: expected an object of columns, data and, if you like, index")
    columns = content.get("columns")
    if columns is not None and not isinstance(columns, list):
        raise BadRequestError("dataframe_split.columns: expected a list of names")
    values = _numbers(content["data"], "dataframe_split.data", max_rows)
    if values.size == 0 and values.ndim == 1:
        values = values.reshape(0, model.n_features if columns is None else len(columns))
    if columns is not None and (values.ndim != 2 or values.shape[1] != len(columns)):
        raise UnprocessableError(f"dataframe_split: {len(columns)} columns, but rows of shape {list(values.shape[1:])}")
    return columns, values


def _records(content: Any, model: Signature, max_rows: int) -> tuple[list[Any] | None, Array]:
    if not isinstance(content, list) or not all(isinstance(record, dict) for record in content):
        raise BadRequestError("dataframe_records: expected a list of objects, one per row")
    if not content:
        return None, np.zeros((0, model.n_features))
    check_rows(len(content), max_rows)
    columns = list(content[0])
    for row, record in enumerate(content):
        if record.keys() != content[0].keys():
            raise UnprocessableError(f"dataframe_records: row {row} has other columns than row 0")
    rows = [[record[column] for column in columns] for record in content]
    return columns, numbers(rows, "dataframe_records")


def _tensor(content: Any, form: str, model: Signature, max_rows: int) -> Array:
    if isinstance(content, dict):
        if list(content) != [model.input.name]:
            message = f"{form}: expected the tensor {model.input.name!r}, found {short(sorted(content))}"
            raise UnprocessableError(message)
        content = content[model.input.name]
    elif isinstance(content, list) and content and all(isinstance(row, dict) for row in content):
        if any(list(row) != [model.input.name] for row in content):
            raise UnprocessableError(f"{form}: expected rows of the tensor {model.input.name!r}")
        content = [row[model.input.name] for row in content]
    values = _numbers(content, form, max_rows)
    return values.reshape(0, model.n_features) if values.size == 0 and values.ndim == 1 else values


def _numbers(values: Any, what: str, max_rows: int) -> Array:
    if isinstance(values, list) and values and isinstance(values[0], list):
        check_rows(len(values), max_rows)
    return numbers(values, what)


def _ordered(values: Array, columns: list[Any] | None, model: Signature) -> Array:
    """The columns in the order of the model's features: its own names, else pandas' 0, 1, ... where they are those."""
    if columns is None:
        return values
    names = [str(column) for column in columns]
    expected = model.feature_names
    if expected is None:
        expected = tuple(str(place) for place in range(model.n_features))
        if set(names) != set(expected):
            return values
    if len(set(names)) < len(names):
        raise UnprocessableError("a column is given twice")
    if missing := [name for name in expected if name not in set(names)]:
        raise UnprocessableError(f"{len(missing)} columns are missing, the first {short(missing[0])}")
    if len(names) > len(expected):
        unknown = next(name for name in names if name not in set(expected))
        raise UnprocessableError(f"column {short(unknown)} is not a feature of the model")
    place = {name: index for index, name in enumerate(names)}
    return values[:, [place[name] for name in expected]]
