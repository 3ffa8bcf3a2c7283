"""The container of lcml's own files: a zip archive, uncompressed, of one JSON header and arrays, of numbers
in numpy's .npy format, of text in JSON.

    lcml.json     {"format": ..., "version": ..., "content": ..., "arrays": [names], "texts": [names]}: the first member
    NAME.npy      one member per array of numbers, little-endian, C order
    NAME.json     one member per array of text: a list of strings; a header without "texts" means none

Nothing in it is ever unpickled. The archive keeps a CRC-32 of every member, and since no member is compressed, none
can be larger than the file. Equal content gives equal bytes: the members carry no time and stand in a fixed order.
"""

import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lcml.arrays import frozen
from lcml.errors import FormatError
from lcml.files import atomic_writer, open_regular

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

HEADER_NAME = "lcml.json"
NPY_VERSION = (1, 0)
DTYPES = frozenset(np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "|u1", "|b1"))

TEXT = np.dtypes.StringDType()
"""The type of an array of text in memory: a long string makes no other longer."""

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can record
_UNIX = 3
_READABLE_FILE = 0o100644 << 16
_LOCAL_HEADER_SIZE = 30
_END_RECORD_SIZE = 22


def write_container(path: str | Path, kind: str, version: int, content: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a container atomically.

    content: a JSON object; arrays: by name, of one of DTYPES, or of text (n,). Raises FormatError where `content` is
    not JSON (NaN and infinity are not) or an array is of another type, OutputError where the file cannot be written.
    """
    texts = sorted(name for name, array in arrays.items() if is_text(array))
    numbers = sorted(set(arrays) - set(texts))
    header = {"format": kind, "version": version, "content": content, "arrays": numbers}
    try:
        parts = {HEADER_NAME: _json_bytes(header | {"texts": texts} if texts else header)}
        parts |= {f"{name}.npy": _npy_bytes(name, arrays[name]) for name in numbers}
        parts |= {f"{name}.json": _text_bytes(name, arrays[name]) for name in texts}
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the {kind} cannot be written as JSON and plain arrays: {error}", path) from error
    with atomic_writer(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            member = zipfile.ZipInfo(name, _EPOCH)
            member.create_system, member.external_attr = _UNIX, _READABLE_FILE
            archive.writestr(member, part)


def is_text(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "TU"


def read_container(path: str | Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The content and the arrays of a container.

    Raises FormatError where the file cannot be read, is no lcml file, is of another kind, is newer than `version`, is
    truncated or damaged. Takes memory in proportion to the file's size, whatever the file declares.
    """
    try:
        with open_regular(path) as file:
            start = file.read(_LOCAL_HEADER_SIZE + len(HEADER_NAME))  # the local header of a zip's first member
            if start[:4] != b"PK\x03\x04" or start[_LOCAL_HEADER_SIZE:] != HEADER_NAME.encode():
                raise FormatError(f"is no {kind} file: it does not begin as lcml writes one", path)
            return _read(file, path, kind, version)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path) from error


def _read(file: BinaryIO, path: str | Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - _END_RECORD_SIZE))
        ends_whole = file.read(4) == b"PK\x05\x06"
        with zipfile.ZipFile(file) as archive:
            if not ends_whole or archive.getinfo(HEADER_NAME).header_offset != 0:
                raise ValueError("something stands before or after it")
            header = _read_header(archive, size, path, kind, version)
            return _read_content(archive, size, header)
    except FormatError:
        raise
    except Exception as error:  # zipfile, json and numpy document no set of errors that damaged bytes can raise in them
        what = f"is a truncated or damaged {kind} file ({error})"
        raise FormatError(f"{what}; restore it from a copy or write it again", path) from error


def _read_header(archive: zipfile.ZipFile, size: int, path: str | Path, kind: str, version: int) -> dict[str, Any]:
    header = json.loads(_read_member(archive, HEADER_NAME, size), parse_constant=_refuse_constant)
    if not isinstance(header, dict) or not isinstance(header.get("version"), int):
        raise ValueError(f"{HEADER_NAME} holds no header")
    if header.get("format") != kind:
        raise FormatError(f"expected a {kind} file, found a {header.get('format')!r}", path)
    if header["version"] > version:
        what = f"is a {kind} file of version {header['version']}"
        raise FormatError(f"{what}, newer than the {version} known here: upgrade lcml", path)
    if header["version"] < 1 or not isinstance(header.get("content"), dict):
        raise ValueError(f"{HEADER_NAME} holds no header")
    return header


def _read_content(
    archive: zipfile.ZipFile, size: int, header: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    names, texts = header["arrays"], header.get("texts", [])
    expected = sorted([HEADER_NAME, *(f"{name}.npy" for name in names), *(f"{name}.json" for name in texts)])
    found = sorted(archive.namelist())
    if found != expected:
        culprits = sorted(set(expected) ^ set(found)) or found
        raise ValueError(f"its parts are not those that the header lists: {culprits[0]!r}")
    arrays = {name: _array(name, _read_member(archive, f"{name}.npy", size)) for name in names}
    arrays |= {name: _text_array(name, _read_member(archive, f"{name}.json", size)) for name in texts}
    return header["content"], arrays


def _read_member(archive: zipfile.ZipFile, name: str, size: int) -> bytes:
    """The bytes of a member, checked against their CRC-32."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or not member.file_size == member.compress_size <= size:
        raise ValueError(f"part {name!r}: expected at most {size} bytes, not compressed")
    return archive.read(member)


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False, indent=1).encode("ascii")


def _text_bytes(name: str, array: NDArray[Any]) -> bytes:
    if array.ndim != 1:
        raise TypeError(f"array {name!r} of text is of shape {array.shape}")
    return _json_bytes(array.tolist())


def _npy_bytes(name: str, array: NDArray[Any]) -> bytes:
    ordered = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    if ordered.dtype not in DTYPES:
        raise TypeError(f"array {name!r} is of type {ordered.dtype}")
    stream = io.BytesIO()
    npy.write_array(stream, ordered, version=NPY_VERSION, allow_pickle=False)
    return stream.getvalue()


def _array(name: str, part: bytes) -> NDArray[Any]:
    """The array of a .npy member, read-only; its declared shape must fit the bytes that are there."""
    stream = io.BytesIO(part)
    if npy.read_magic(stream) != NPY_VERSION:
        raise ValueError(f"array {name!r} is not in version 1.0 of the .npy format")
    shape, fortran_order, dtype = npy.read_array_header_1_0(stream)
    start = stream.tell()
    if fortran_order or dtype not in DTYPES or math.prod(shape) * dtype.itemsize != len(part) - start:
        raise ValueError(f"array {name!r}: shape {shape} of {dtype} does not fit its {len(part) - start} bytes")
    return np.frombuffer(part, dtype, offset=start).reshape(shape)


def _text_array(name: str, part: bytes) -> NDArray[Any]:
    """The array of text of a .json member, read-only."""
    strings = json.loads(part)
    if not isinstance(strings, list) or not all(type(string) is str for string in strings):
        raise ValueError(f"array {name!r}: expected a list of strings")
    return frozen(strings, TEXT)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{HEADER_NAME} holds {name}, which is not JSON")
