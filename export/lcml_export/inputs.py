"""What the graph takes: a matrix `features`, or one tensor per column of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from lcml.errors import SettingsError
from lcml.inputs.column import Column, shown_date
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import Encoder
from lcml.inputs.table import Table
from lcml_export.columns import codes
from lcml_export.graph import Graph, onnx_type
from lcml_export.input_types import AUTO, ROUNDING, InputType, chosen_type, float32_errors

InputsKind: TypeAlias = Literal["matrix", "columns"]

FEATURES = "features"
"""The matrix: the input, or what the columns become."""

TEXT = "text"

_RESERVED = (FEATURES, "label", "probabilities", "logits", "contributions", "explain", "")
_LISTED = 2000  # characters of a column's categories in the metadata


@dataclass(frozen=True)
class Inputs:
    """The inputs of a graph. dtype: of the matrix `features`; columns: of one per column, float32, float64 or text;
    keeps_gaps: whether a gap where training had none stays one, for the model to fill."""

    encoder: Encoder
    dtype: InputType
    columns: tuple[str, ...] = ()
    keeps_gaps: bool = False

    @property
    def kind(self) -> InputsKind:
        return "columns" if self.columns else "matrix"

    @property
    def types(self) -> tuple[str, ...]:
        """Of every raw feature."""
        return self.columns or (self.dtype,) * self.encoder.n_features

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.encoder.names if self.columns else [FEATURES])

    def declared(self) -> list[onnx.ValueInfoProto]:
        if not self.columns:
            shape = ["batch", self.encoder.n_features]
            return [helper.make_tensor_value_info(FEATURES, onnx_type(self.dtype), shape)]
        return [
            helper.make_tensor_value_info(name, TensorProto.STRING if kind == TEXT else onnx_type(kind), ["batch", 1])
            for name, kind in zip(self.encoder.names, self.columns, strict=True)
        ]

    def join(self, graph: Graph) -> None:
        """Nodes that make the value FEATURES of the columns."""
        if self.columns:
            encoder, kind = cast(ColumnsEncoder, self.encoder), np.dtype(self.dtype).type
            codes(graph, encoder, self.columns, kind, FEATURES, keeps_gaps=self.keeps_gaps)

    def feeds(self, x: Any) -> dict[str, NDArray[Any]]:
        """The inputs by name of raw examples: an array, or a table with the encoder's columns in its order."""
        if not self.columns:
            return {FEATURES: np.asarray(x.values if isinstance(x, Table) else x).astype(self.dtype)}
        return {
            raw.name: _texts(raw.texts, values)[:, None] if kind == TEXT else values[:, None].astype(kind)
            for raw, values, kind in zip(x.columns, np.asarray(x.values).T, self.columns, strict=True)
        }


def chosen_inputs(encoder: Encoder, asked: str | None, input_dtype: str, names: Sequence[str]) -> Inputs:
    """The inputs `asked` for, by default columns where the encoder finds columns by name, of type `input_dtype`.

    Raises SettingsError where they are none, the encoder has no columns or some that are no numbers, a column's name is
    the graph's own, and as `chosen_type`.
    """
    if asked not in (None, *get_args(InputsKind)):
        raise SettingsError(f"unknown inputs {asked!r}: expected one of {', '.join(get_args(InputsKind))}")
    if not isinstance(encoder, ColumnsEncoder):
        if asked == "columns":
            raise SettingsError(
                f"the encoder {encoder.kind!r} takes a matrix; inputs columns are of the encoder columns"
            )
        return Inputs(encoder, chosen_type(encoder, input_dtype, names))
    if input_dtype == "uint8":
        raise SettingsError("input type uint8 is for images; a table takes float32, float64 or auto")
    of_columns = asked != "matrix" and input_dtype in get_args(InputType)
    matrix_type = chosen_type(encoder, AUTO if of_columns else input_dtype, names)
    if asked == "matrix":
        if texts := [column.name for column in encoder.columns if column.is_text]:
            raise SettingsError(f"the column {texts[0]!r} holds categories, no numbers; choose the inputs columns")
        return Inputs(encoder, matrix_type)
    if reserved := [name for name in encoder.names if name in _RESERVED]:
        raise SettingsError(f"column {reserved[0]!r}: the graph has a value of that name; rename the column and train")
    errors = float32_errors(encoder)
    types = tuple(
        _type(column, input_dtype, error > ROUNDING) for column, error in zip(encoder.columns, errors, strict=True)
    )
    return Inputs(encoder, "float64" if "float64" in types else "float32", types)


def described(inputs: Inputs) -> list[dict[str, Any]]:
    """What the metadata lcml.columns say of every column: its name, kind and type, whether training had gaps, and its
    range, or its categories as far as they fit, and their number."""
    columns = inputs.encoder.columns if isinstance(inputs.encoder, ColumnsEncoder) else ()
    return [
        {"name": column.name, "kind": column.kind, "type": kind, "gaps": column.gaps, **_values(column)}
        for column, kind in zip(columns, inputs.types, strict=False)
    ]


def _values(column: Column) -> Mapping[str, Any]:
    if column.is_text:
        lengths = np.cumsum([len(text) for text in column.categories])
        shown = column.categories[: int(np.searchsorted(lengths, _LISTED, side="right"))]
        return {"categories": list(shown), "n_categories": len(column.categories)}
    ends = column.knots[[0, -1]].tolist()
    return {"range": [shown_date(end) for end in ends] if column.kind == "date" else ends}


def _type(column: Column, input_dtype: str, widened: bool) -> str:
    if column.is_text:
        return TEXT
    if widened and input_dtype == "float32" and column.kind == "number":
        raise SettingsError(
            f"input type float32 cannot hold the column {column.name!r}; choose the input type auto or float64"
        )
    return "float64" if widened or column.kind == "date" or input_dtype == "float64" else "float32"


def _texts(texts: Sequence[str], values: NDArray[Any]) -> NDArray[np.object_]:
    """(n,) what places among `texts` say, "" for a gap."""
    said = np.array([*texts, ""], dtype=object)
    return np.asarray(said[np.where(np.isnan(values), len(texts), values).astype(np.intp)])
