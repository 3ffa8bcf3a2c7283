"""Score batches anywhere: a model as a value that other processes get, and batches in the form they come in.

scorer = Scorer("model.onnx")
frame.map_partitions(scorer, meta=scorer.empty())           # Dask
spark_frame.mapInPandas(scorer.each, scorer.spark_schema)   # PySpark
data.map_batches(scorer, batch_format="pyarrow")            # Ray
polars_frame.map_batches(scorer)                            # polars
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lcml_serving.columns import require_named, to_inputs
from lcml_serving.errors import UnprocessableError
from lcml_serving.features import to_features
from lcml_serving.model_files import read_content
from lcml_serving.models import OnnxModel, load_model
from lcml_serving.signature import Array

_MOST_ROWS = sys.maxsize
_OPEN_MODELS = 8  # models that a process keeps open


class Scorer:
    """An exported model that answers batches of rows; it can be pickled, and holds the file's content, so that no other
    machine needs the file.

    A process opens a model once, on `threads` threads. What a call gives has the form of what it takes:

        numpy, (n, n_features)          {"label": (n,), "probabilities": (n, n_classes), ...}, the outputs of the graph
        a mapping of names to arrays    {"label": (n,), "probability_CLASS": (n,), ...}
        pandas, polars, pyarrow         the same as columns, of pandas with the index of the rows

    Columns are found by their names; others are ignored. None, NaN and NaT are gaps. Raises ModelError for a file that
    cannot be served, UnprocessableError for columns that are missing and values that the model cannot take: the row,
    counted from 0 in the batch, and the column.
    """

    def __init__(self, path: str | Path, *, threads: int = 1) -> None:
        self._path, self._threads = str(path), threads
        self._content = read_content(Path(path))
        _ = self._model  # what cannot be served is told here

    def __call__(self, batch: Any) -> Any:
        """The predictions of a batch; see the class."""
        if isinstance(batch, np.ndarray):
            return self._outputs((to_features(batch, self._model.signature, _MOST_ROWS),))
        return _like(batch, self._named(self._outputs(self._inputs(_by_name(batch)))))

    def each(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The predictions of every batch, as PySpark's `mapInPandas` and `mapInArrow` want them."""
        return map(self, batches)

    def empty(self) -> Any:
        """The predictions of no rows as a pandas frame: what Dask calls `meta`."""
        import pandas as pd

        return pd.DataFrame(self._nothing)

    @property
    def spark_schema(self) -> str:
        """The columns of predictions as Spark's schema strings have them."""
        types = {"f": "float", "i": "long"}
        return ", ".join(f"`{name}` {types.get(v.dtype.kind, 'string')}" for name, v in self._nothing.items())

    @property
    def _model(self) -> OnnxModel:
        return _opened(self._path, self._content, self._threads)

    @cached_property
    def _nothing(self) -> dict[str, Array]:
        signature = self._model.signature
        no_rows = tuple(np.zeros((0, spec.shape[1]), spec.dtype) for spec in signature.inputs)
        return self._named(self._outputs(no_rows))

    def _inputs(self, given: Mapping[str, Any]) -> tuple[Array, ...]:
        signature = self._model.signature
        if signature.columns:
            own = {column.name: _values(given[column.name]) for column in signature.columns if column.name in given}
            return to_inputs(own, signature, _MOST_ROWS)
        names = signature.feature_names or tuple(given)
        require_named(names, given)
        matrix = np.stack([np.asarray(given[name]) for name in names], axis=1)
        if matrix.dtype.kind not in "biuf":
            raise UnprocessableError(f"expected columns of numbers, found {matrix.dtype} among them")
        return (to_features(matrix, signature, _MOST_ROWS),)

    def _outputs(self, inputs: tuple[Array, ...]) -> dict[str, Array]:
        names = self._model.signature.predictions
        return dict(zip(names, self._model.run(names, *inputs), strict=True))

    def _named(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """The label and the probability of every class, a column each."""
        probabilities = outputs["probabilities"]
        classes = self._model.classes or range(probabilities.shape[1])
        columns = {f"probability_{name}": probabilities[:, k] for k, name in enumerate(classes)}
        return {"label": outputs["label"], **columns}


@lru_cache(_OPEN_MODELS)
def _opened(path: str, content: bytes, threads: int) -> OnnxModel:
    return load_model(Path(path), Path(path).stem, "1", threads, {Path(path).name: content})


def _by_name(batch: Any) -> Mapping[str, Any]:
    if isinstance(batch, Mapping):
        return batch
    if hasattr(batch, "column_names"):
        return dict(zip(batch.column_names, batch.columns, strict=True))
    return {str(name): batch[name] for name in batch.columns}


def _like(batch: Any, found: Mapping[str, Array]) -> Any:
    """Columns in the form of the batch."""
    if isinstance(batch, Mapping):
        return found
    columns = {name: values.tolist() if values.dtype == object else values for name, values in found.items()}
    if hasattr(batch, "column_names"):
        return type(batch).from_pydict(columns)
    return type(batch)(columns, index=batch.index) if hasattr(batch, "index") else type(batch)(columns)


def _values(column: Any) -> Any:
    """Of a column: an array of numbers, of dates as days since 1970-01-01, else a list of values with None for gaps."""
    kind: Any = getattr(column, "type", None)
    if hasattr(kind, "index_type"):  # a dictionary of pyarrow's, which fills its gaps
        column = column.cast(kind.value_type)
    zone = getattr(getattr(column, "dtype", None), "tz", None)
    values = column.to_numpy("datetime64[us]") if zone is not None else np.asarray(column)
    if values.dtype.kind in "mM":
        values = np.where(np.isnat(values), np.nan, (values - values.dtype.type(0, "D")) / np.timedelta64(1, "D"))
    return values if values.dtype.kind in "iuf" else [_plain(value) for value in values.tolist()]


def _plain(value: Any) -> Any:
    if type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    return float(value) if isinstance(value, Decimal) else value
