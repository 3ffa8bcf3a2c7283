"""Columns of pyarrow as the numbers of a table (`lcml.inputs.table`), piece by piece."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.errors import DataError
from lcml.inputs.table import TRUTH, RawColumn, days


class ArrowColumn:
    """A column of a table: its type, and the texts seen so far. Raises DataError for one of lists or the like."""

    def __init__(self, name: str, arrow_type: Any, gaps: bool) -> None:
        from pyarrow import types

        self.name = name
        self._values = arrow_type.value_type if types.is_dictionary(arrow_type) else arrow_type
        self._ordered = types.is_dictionary(arrow_type) and arrow_type.ordered
        self._place: dict[str, int] = {}
        whole = types.is_integer(self._values)
        self.dtype = np.dtype(np.float64)
        if (whole or types.is_floating(self._values)) and not (whole and gaps):
            self.dtype = np.dtype(self._values.to_pandas_dtype())
        kinds = (
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
        )
        self._is_text = any(is_one(self._values) for is_one in kinds)
        if types.is_boolean(self._values):
            self._place = {text: i for i, text in enumerate(TRUTH)}
        known = whole, types.is_floating(self._values), types.is_decimal(self._values), types.is_null(self._values)
        self._is_date = types.is_timestamp(self._values) or types.is_date(self._values)
        if not (any(known) or self._is_text or self._place or self._is_date):
            raise DataError(
                f"column {name!r} holds {arrow_type}; expected numbers, text, truth values or dates: drop it"
            )

    def raw(self, name: str) -> RawColumn:
        """What was read, under that name."""
        if self._is_date:
            return RawColumn(name, "date")
        if self._is_text or self._place:
            return RawColumn(name, "text", tuple(self._place), bool(self._ordered))
        return RawColumn(name)

    def numbers(self, column: Any) -> NDArray[Any]:
        """(n,) the numbers of the next piece."""
        import pyarrow as pa

        if self._is_text:
            return self._codes(column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(self._values)
        if self._is_date:
            return days(np.asarray(column.cast(pa.timestamp("us")).to_numpy(), "datetime64[us]"))
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())
        if column.null_count or not column.type.equals(self._values) or pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        return np.asarray(column.to_numpy())

    def _codes(self, column: Any) -> NDArray[np.float64]:
        """The places of a piece's texts among all."""
        import pyarrow as pa

        found = []
        for chunk in column.chunks:
            part = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            texts = part.dictionary.cast(pa.large_string()) if not pa.types.is_string(self._values) else part.dictionary
            place = np.array(
                [
                    np.nan if text is None else self._place.setdefault(text, len(self._place))
                    for text in texts.to_pylist()
                ]
                + [np.nan]
            )
            codes = part.indices.fill_null(len(place) - 1).to_numpy(zero_copy_only=False)
            found.append(place[codes])
        return np.concatenate([np.zeros(0), *found])
