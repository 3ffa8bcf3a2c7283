"""A model file as MLflow's `pyfunc` loads it: `mlflow.pyfunc.load_model` and `mlflow models serve` call this module."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.data.raw import is_pixel
from lcml.errors import DataError, SettingsError
from lcml.explain.names import known_names
from lcml.formats import load_model
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.table import TRUTH, from_frame, is_frame, spelling
from lcml.model.model import LogisticCircuit

INPUT = "features"
"""The name of the input of a model that takes an array."""

OUTPUTS = ("label", "probabilities")
_LARGEST_BYTE = 255


class PyfuncModel:
    """Answers `label` (n_examples,) and `probabilities` (n_examples, n_classes) for raw features, or the one of them
    that `output` names. Raises SettingsError for another output."""

    def __init__(self, model: LogisticCircuit, output: str | None = None) -> None:
        if output not in (None, *OUTPUTS):
            raise SettingsError(f"output {output!r}: expected one of {', '.join(OUTPUTS)}")
        self.model, self.output = model, output

    def predict(self, model_input: Any, params: object = None) -> dict[str, NDArray[Any]] | NDArray[Any]:
        """model_input: an array (n_examples, n_features), that array by the name INPUT, or a frame, whose columns are
        found by their names.

        Raises DataError for a frame that lacks a column, and what `LogisticCircuit.logits` raises.
        """
        if isinstance(self.model.encoder, ColumnsEncoder) and is_frame(model_input):
            logits = self.model.logits(from_frame(model_input))
        else:
            given = model_input[INPUT] if isinstance(model_input, dict) else self._in_order(model_input)
            x = np.asarray(given, dtype=np.float64)
            logits = self.model.logits(x.reshape(len(x), -1))
        labels = np.asarray(self.model.classes)[self.model.codes(logits)]
        outputs = dict(zip(OUTPUTS, (labels, self.model.head.probabilities(logits)), strict=True))
        return outputs if self.output is None else outputs[self.output]

    def _in_order(self, model_input: Any) -> Any:
        columns, names = list(getattr(model_input, "columns", [])), known_names(self.model)
        if not names or not any(isinstance(column, str) for column in columns):
            return model_input
        missing = [name for name in names if name not in columns]
        if missing:
            raise DataError(f"the table has no column {missing[0]!r}; expected the {len(names)} columns of training")
        return model_input[list(names)]


def input_example(model: LogisticCircuit, input_dtype: str = "float64", *, matrix: bool = False) -> Any:
    """Raw examples that tell nothing of the data but their range: all lowest, then all highest, as `input_dtype` holds
    them.

    Of a table a frame of numbers, dates, truth values and texts, with a row of gaps, which makes columns optional; with
    `matrix` as a graph takes it in one tensor, dates as days.

    A frame of numbers by the names of the columns; for images, and where no names are known, the array INPUT, so that
    MLflow refuses frames: it hands an array on without the names of its columns.
    """
    if isinstance(model.encoder, ColumnsEncoder):
        return _table_example(model.encoder, matrix)
    rows: NDArray[Any] = model.encoder.inputs_at(np.array([[0.0], [1.0]]).repeat(model.encoder.n_features, axis=1))
    if input_dtype == "uint8":
        rows = np.clip(np.rint(rows), 0, _LARGEST_BYTE)
    rows = rows.astype(input_dtype)
    names = known_names(model)
    if names is None or is_pixel(names[0]):
        return {INPUT: rows if input_dtype == "uint8" else rows.astype(np.float64)}
    from pandas import DataFrame

    return DataFrame(rows.astype(np.float64), columns=list(names))


def _table_example(encoder: ColumnsEncoder, matrix: bool) -> Any:
    from pandas import DataFrame, Series, to_datetime

    columns: dict[str, Any] = {}
    for column in encoder.columns:
        texts = column.categories or ("",)
        ends: list[Any] = [texts[0], texts[-1]] if column.is_text else column.knots[[0, -1]].tolist()
        dtype: type = object if column.is_text and not all(map(_is_spelled_number, texts)) else float
        if column.is_text and set(texts) <= set(TRUTH) and not column.gaps:  # MLflow makes false of a gap in JSON
            ends, dtype = [text == TRUTH[1] for text in ends], bool
        takes_gap = column.gaps or (column.kind == "category" and dtype is not bool)
        columns[column.name] = Series([*ends, None if takes_gap else ends[0]], dtype=dtype)
        if column.kind == "date" and not matrix:
            columns[column.name] = to_datetime(columns[column.name], unit="D")
    return DataFrame(columns)


def _is_spelled_number(text: str) -> bool:
    try:
        return spelling(float(text)) == text
    except ValueError:
        return False


def load_example(path: str) -> Any:
    """The `input_example` of a model file."""
    return input_example(load_model(path))


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> PyfuncModel:
    return PyfuncModel(load_model(path), (model_config or {}).get("output"))
