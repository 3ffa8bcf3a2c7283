"""Tensors of the Open Inference Protocol: JSON, or raw little-endian bytes behind it.

A text in a binary tensor is 4 bytes of length and UTF-8.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lcml_serving.errors import BadRequestError, UnprocessableError, short
from lcml_serving.features import check_rows, numbers
from lcml_serving.signature import Array, TensorSpec

HEADER_LENGTH = "inference-header-content-length"

# datatype -> (numpy dtype on the wire, kinds of JSON number that it takes)
DATATYPES: Mapping[str, tuple[np.dtype[Any], str]] = {
    "BOOL": (np.dtype("?"), "b"),
    **{f"UINT{bits}": (np.dtype(f"<u{bits // 8}"), "iu") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": (np.dtype(f"<i{bits // 8}"), "iu") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": (np.dtype(f"<f{bits // 8}"), "iuf") for bits in (16, 32, 64)},
}


def columns_by_name(tensors: Sequence[Mapping[str, Any]], rest: bytes, max_rows: int) -> dict[str, Any]:
    """The values (rows,) of every tensor, one per column; binary ones follow the JSON in their order."""
    found: dict[str, Any] = {}
    for tensor in tensors:
        name = tensor.get("name")
        if not isinstance(name, str):
            raise BadRequestError(f"inputs: expected the name of a column, found {short(name)}")
        if name in found:
            raise UnprocessableError(f"column {short(name)} is given twice")
        size = object_at(tensor, "parameters").get("binary_data_size")
        own = rest[:size] if type(size) is int and size >= 0 else b""
        rest = rest[len(own) :]
        found[name] = read_tensor(tensor, own, 1, max_rows, of_column=True)
    if rest:
        raise BadRequestError(f"{len(rest)} bytes follow the JSON that belong to no tensor")
    return found


def read_tensor(tensor: Mapping[str, Any], rest: bytes, width: int, max_rows: int, *, of_column: bool = False) -> Any:
    """An array (rows, width); of a column (rows,) values, texts and null among them."""
    name, datatype = short(tensor.get("name"))[1:-1], tensor.get("datatype")
    known = [*DATATYPES, "BYTES"] if of_column else list(DATATYPES)
    if not isinstance(datatype, str) or datatype not in known:
        raise UnprocessableError(f"{name}: expected a datatype among {', '.join(known)}, found {short(datatype)}")
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
        raise BadRequestError(f"{name}: expected a shape such as [1, {width}], found {short(shape)}")
    if shape[1:] != [width] and not (of_column and len(shape) == 1):
        raise UnprocessableError(f"{name}: expected shape [rows, {width}], found {short(shape)}")
    count = shape[0] * width
    parameters = object_at(tensor, "parameters")
    size = parameters.get("binary_data_size")
    if "shared_memory_region" in parameters:
        raise BadRequestError(f"{name}: shared memory is not supported; send the tensor in the body")
    if size is None:
        if rest:
            raise BadRequestError(f"{len(rest)} bytes follow the JSON, but {name} has no binary_data_size")
        if "data" not in tensor:
            raise BadRequestError(f"{name}: expected data, or a binary_data_size and the header {HEADER_LENGTH}")
        data = tensor["data"]
        if isinstance(data, list) and (size := _size(data)) != count:
            raise UnprocessableError(f"{name}: shape {short(shape)} needs {count} numbers, found {size}")
        check_rows(shape[0], max_rows)
        if of_column:
            return _values(data, name, datatype)
        return _checked(numbers(data, f"{name}.data"), name, datatype).reshape(shape)
    if "data" in tensor:
        raise BadRequestError(f"{name}: expected either data or binary_data_size, found both")
    if type(size) is not int or size != len(rest):
        raise BadRequestError(f"{name}: binary_data_size is {short(size)}, but {len(rest)} bytes follow the JSON")
    if datatype == "BYTES":
        return _from_bytes(rest, count, name)
    dtype, _ = DATATYPES[datatype]
    if size != count * dtype.itemsize:
        expected = count * dtype.itemsize
        raise BadRequestError(f"{name}: shape {short(shape)} of {datatype} needs {expected} bytes, found {size}")
    if datatype == "BOOL" and (np.frombuffer(rest, np.uint8) > 1).any():
        raise UnprocessableError(f"{name}: expected bytes 0 and 1 for BOOL")
    return np.frombuffer(rest, dtype).reshape(shape[0] if of_column else shape)


def _values(data: Any, name: str, datatype: str) -> Any:
    """The values of a column in JSON, flat or each in a list of its own; null among them is a gap."""
    if not isinstance(data, list):
        raise UnprocessableError(f"{name}.data: expected a list, found {type(data).__name__}")
    flat = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in data]
    present = [value for value in flat if value is not None]
    if datatype == "BYTES":
        if not all(isinstance(value, str) for value in present):
            raise UnprocessableError(f"{name}: expected texts or null for BYTES, found something else among them")
    elif _checked(numbers(present, f"{name}.data"), name, datatype).ndim != 1:
        raise UnprocessableError(f"{name}: expected a list of {datatype}, found lists in it")
    return flat


def _from_bytes(rest: bytes, count: int, name: str) -> list[str]:
    found, place = [], 0
    try:
        while place < len(rest):
            (length,) = struct.unpack_from("<I", rest, place)
            place += 4 + length
            found.append(rest[place - length : place].decode())
    except (struct.error, UnicodeDecodeError) as error:
        raise BadRequestError(f"{name}: not the texts of BYTES, each behind its length: {error}") from None
    if len(found) != count or place != len(rest):
        raise BadRequestError(f"{name}: expected {count} texts in {len(rest)} bytes, found {len(found)} in {place}")
    return found


def _size(values: list[Any]) -> int:
    """How many numbers nested lists hold, if they hold nothing else and are of one depth."""
    if not values or not isinstance(values[0], list):
        return len(values)
    return sum(_size(value) if isinstance(value, list) else 1 for value in values)


def _checked(values: Array, name: str, datatype: str) -> Array:
    dtype, kinds = DATATYPES[datatype]
    if values.size and values.dtype.kind not in kinds:
        raise UnprocessableError(f"{name}: expected {datatype}, found numbers of another kind ({values.dtype})")
    if dtype.kind in "iu" and values.size:
        info = np.iinfo(dtype)
        if int(values.min()) < info.min or int(values.max()) > info.max:
            raise UnprocessableError(f"{name}: expected {datatype}, found a number outside {info.min} to {info.max}")
    return values


def object_at(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under that key, empty where there is none. Raises BadRequestError for anything else."""
    value = message.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequestError(f"{key}: expected an object, found {short(value)}")
    return value


def to_bytes(array: Array, spec: TensorSpec) -> bytes:
    if spec.datatype != "BYTES":
        return array.astype(spec.dtype, copy=False).tobytes()
    texts = [text.encode() for text in array.ravel().tolist()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
