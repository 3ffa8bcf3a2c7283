"""Columns of pyarrow as the numbers of a table (`lcml.inputs.table`), piece by piece."""

import ctypes
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.errors import DataError
from lcml.inputs.table import TRUTH, RawColumn, RawKind, days

_UNITS = {"time": 3600 * 10**6, "span": 24 * 3600 * 10**6}  # microseconds of what a number is told in


class ArrowColumn:
    """A column of a table: its type, and the texts seen so far. Raises DataError for one of lists or the like.

    dtype: of its numbers; gaps: whether there may be some.
    """

    def __init__(self, name: str, arrow_type: Any, gaps: bool) -> None:
        from pyarrow import types

        self.name = name
        self._type = arrow_type
        self._form = _form(name, arrow_type)
        self._place = {text: i for i, text in enumerate(TRUTH)} if types.is_boolean(arrow_type) else {}
        keeps = types.is_floating(arrow_type) or (types.is_integer(arrow_type) and not gaps)
        self.dtype = np.dtype(arrow_type.to_pandas_dtype() if keeps else np.float64)

    def raw(self, name: str) -> RawColumn:
        """What was read, under that name."""
        kinds: dict[str, RawKind] = {"text": "text", "truth": "text", "date": "date"}
        return RawColumn(
            name, kinds.get(self._form, "number"), tuple(self._place), getattr(self._type, "ordered", False)
        )

    def numbers(self, column: Any) -> NDArray[Any]:
        """(n,) the numbers of the next piece."""
        import pyarrow as pa

        if self._form == "text":
            return self._codes(column)
        if self._form == "date":  # not safe: a fraction of a microsecond is lost
            return days(np.asarray(column.cast(pa.timestamp("us"), safe=False).to_numpy(), "datetime64[us]"))
        if unit := _UNITS.get(self._form):
            to = pa.time64("us") if self._form == "time" else pa.duration("us")
            return np.asarray(column.cast(to, safe=False).cast(pa.int64()).cast(pa.float64()).to_numpy()) / unit
        if self._form == "truth":
            column = column.cast(pa.uint8())
        if column.null_count or self._form in ("truth", "decimal"):
            column = column.cast(pa.float64(), safe=False)  # not safe: digits beyond a float's are lost
        return np.asarray(column.to_numpy())

    def _codes(self, column: Any) -> NDArray[np.float64]:
        """The places of a piece's texts among all."""
        import pyarrow as pa

        found = [np.zeros(0)]
        for chunk in column.chunks:
            part = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            texts = part.dictionary.cast(pa.large_string()).to_pylist()
            place = [self._place.setdefault(text, len(self._place)) if text else np.nan for text in texts]
            codes = part.indices.fill_null(len(place)).to_numpy(zero_copy_only=False)
            found.append(np.array([*place, np.nan])[codes])
        return np.concatenate(found)


def _form(name: str, arrow_type: Any) -> str:
    """How the values of a column of that type are read."""
    from pyarrow import types

    forms = {
        "text": (
            types.is_dictionary,
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
        ),
        "number": (types.is_integer, types.is_floating, types.is_null),
        "decimal": (types.is_decimal,),
        "truth": (types.is_boolean,),
        "date": (types.is_timestamp, types.is_date),
        "time": (types.is_time,),
        "span": (types.is_duration,),
    }
    for form, tests in forms.items():
        if any(is_one(arrow_type) for is_one in tests):
            return form
    raise DataError(
        f"column {name!r} holds {arrow_type}; expected numbers, text, truth values, dates or times: drop it"
    )


def release_memory() -> None:
    """Hand back to the system what pyarrow has freed: of a text table of 70,000 columns a gigabyte, in small pieces."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # where the C library is not glibc
        ctypes.CDLL(None).malloc_trim(0)
