"""Malformed files, by format: what is wrong with each, and how it is made of a whole one."""

import gzip
import io
import json
import math
import os
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
from onnx import helper
from pyarrow import parquet

from tests.attacks.formats import FORMATS

Damage = bytes | str | Callable[[Path], object]
"""What takes the place of a file, or what is done to it."""


def write(path: Path, damage: Damage) -> None:
    """Put the malformed file where the whole one is."""
    if callable(damage):
        damage(path)
    else:
        path.write_bytes(damage.encode("utf-8", "surrogateescape") if isinstance(damage, str) else damage)


def _made(change: Callable[[bytes], bytes]) -> Damage:
    """Of the whole file's content."""
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _text(old: str, new: str, count: int = 1) -> Damage:
    """With a text in it replaced."""

    def change(path: Path) -> None:
        content = path.read_text()
        assert old in content
        path.write_text(content.replace(old, new, count), errors="surrogateescape")

    return change


def _instead(make: Callable[[Path], object]) -> Damage:
    """Something else than a file."""

    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


_BRACKETS = "[" * 100_000
_DIGITS = "9" * 5000
_NOISE = random.Random(0).randbytes(3000)
_LONG_LINE = "x" * (1 << 24) + "y"

EVERY: Mapping[str, Damage] = {
    "empty": b"",
    "a byte": b"\0",
    "noise": _NOISE,
    "a zip of nothing": b"PK\5\6" + bytes(18),
    "gzip cut short": gzip.compress(_NOISE)[:-20],
    "a picture": b"\x89PNG\r\n\x1a\n" + _NOISE,
    "brackets": _BRACKETS,
    "the wrong half": _made(lambda content: content[len(content) // 2 :]),
    "in UTF-16": _made(lambda content: content.decode("latin-1").encode("utf-16")),
    "one long line": _LONG_LINE,
    "nothing there": _instead(lambda path: None),
    "a folder": _instead(Path.mkdir),
    "a pipe": _instead(os.mkfifo),
    "a device": _instead(lambda path: path.symlink_to("/dev/zero")),
}
"""Done to files of every format, and given to every command that reads it."""

TOLERATED = {
    *(("toml", "empty"), ("spool", "a folder")),
    *(("sidecar", name) for name in ("nothing there", "a folder", "a pipe", "a device")),
}
"""What is no damage: a recipe may say nothing, a folder of spools be empty, and a model have no sidecar."""

_TABLE: Mapping[str, Callable[[str], str]] = {
    "names alone": lambda text: text.split("\n")[0] + "\n",
    "no target": lambda text: text.replace("label", "answer", 1),
    "two targets": lambda text: text.replace("a,b", "a,y", 1),
    "a name twice": lambda text: text.replace("a,b", "a,a", 1),
    "no name": lambda text: text.replace("a,b", "a,", 1),
    "names of numbers": lambda text: text.replace("a,b,c,d,label", "1,2,3,4,5", 1),
    "no names": lambda text: text.split("\n", 1)[1],
    "only labels": lambda text: "label\n" + "1\n0\n" * 20,
    "text among numbers": lambda text: text + "1,red,2,3,1\n",
    "an empty cell": lambda text: text + "1,,2,3,1\n",
    "an infinite cell": lambda text: text + "1,inf,2,3,1\n",
    "too large a number": lambda text: text + "1,1e400,2,3,1\n",
    "five thousand digits": lambda text: text + f"1,{_DIGITS},2,3,1\n",
    "a row too short": lambda text: text + "1,2,3\n",
    "a row too long": lambda text: text + "1,2,3,4,y,6\n",
    "a label missing": lambda text: text + "1,2,3,4,\n",
    "one label": lambda text: text.replace(",0\n", ",1\n"),
    "a label once": lambda text: text + "1,2,3,4,z\n",
    "measured labels": lambda text: text.replace(",0\n", ",0.5\n").replace(",1\n", ",1.5\n"),
    "an open quote": lambda text: text + '1,2,3,4,"y\n' + "1,2,3,4,1\n" * 3,
    "a zero byte in a number": lambda text: text + "1,2\0,3,4,1\n",
    "latin-1": lambda text: text.replace("label", "l\udce4bel") + "1,2,3,4,\udcfc\n",
    "few examples": lambda text: "".join(text.splitlines(keepends=True)[:2]),
    "numbers too far apart": lambda text: text + "1,1e308,2,3,1\n1,-1e308,2,3,0\n" * 9,
}


def _tables(form: str) -> dict[str, Damage]:
    """The text tables, as a format writes them."""

    def damage(change: Callable[[str], str]) -> Damage:
        def of(content: bytes) -> bytes:
            packed = form == "csv.gz"
            text = (gzip.decompress(content) if packed else content).decode()
            plain = change(text.replace("\t", ",")).replace(",", "\t" if form == "tsv" else ",")
            raw = plain.encode("utf-8", "surrogateescape")
            return gzip.compress(raw, mtime=0) if packed else raw

        return _made(of)

    return {name: damage(change) for name, change in _TABLE.items()}


def _parquet(**columns: Any) -> Damage:
    """The table with columns added or, given None, dropped."""

    def change(path: Path) -> None:
        table = parquet.read_table(path)
        for name, values in columns.items():
            table = table.drop_columns([name]) if name in table.column_names else table
            table = table if values is None else table.append_column(name, pa.array(values))
        parquet.write_table(table, path)

    return change


_PARQUET: dict[str, Damage] = {
    "no target": _parquet(label=None),
    "only labels": _parquet(**dict.fromkeys("abcd")),
    "two targets": _parquet(y=[1, 0] * 20),
    "text": _parquet(a=["red"] * 40),
    "bytes": _parquet(a=[b"\xff"] * 40),
    "lists": _parquet(a=[[1]] * 40),
    "records": _parquet(a=[{"x": 1}] * 40),
    "dates": _parquet(a=pa.array([0] * 40, pa.date32())),
    "a gap": _parquet(a=[1.0] * 39 + [None]),
    "gaps alone": _parquet(a=pa.nulls(40)),
    "infinite": _parquet(a=[np.inf] * 40),
    "one label": _parquet(label=["y"] * 40),
    "measured labels": _parquet(label=[0.5, 1.5] * 20),
    "labels of lists": _parquet(label=[["y"], ["n"]] * 20),
    "a label missing": _parquet(label=["y", "n"] * 19 + ["y", None]),
    "labels of bytes that are no text": _parquet(label=[b"\xff", b"n"] * 20),
    "no rows": lambda path: parquet.write_table(parquet.read_table(path).slice(0, 0), path),
    "no columns": lambda path: parquet.write_table(pa.table({}), path),
}


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array), allow_pickle=True)
    return stream.getvalue()


def _npy_header(text: str, version: bytes = b"\1\0", rest: bytes = b"") -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY" + version + len(header).to_bytes(2 if version == b"\1\0" else 4, "little") + header + rest


def _npy_of(shape: str, dtype: str = "'<f8'", rest: bytes = b"") -> bytes:
    return _npy_header(f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}", rest=rest)


_HOLE = np.where(np.arange(160).reshape(40, 4) == 77, np.nan, 1.0)
_ARRAYS: dict[str, bytes] = {
    "objects": npy(np.array([[{}] * 4] * 40)),
    "text": npy(np.full((40, 4), "red")),
    "complex": npy(np.ones((40, 4), complex)),
    "records": npy(np.zeros((40, 4), [("x", "f8")])),
    "dates": npy(np.zeros((40, 4), "M8[s]")),
    "a line": npy(np.ones(40)),
    "four dimensions": npy(np.ones((40, 2, 2, 1))),
    "one number": npy(1.0),
    "no rows": npy(np.ones((0, 4))),
    "no columns": npy(np.ones((40, 0))),
    "not a number": npy(_HOLE),
    "2^40 columns of nothing": _npy_of(f"(0, {2**40})"),
    "2^40 rows of nothing": _npy_of(f"({2**40}, 0)"),
    "2^40 rows": _npy_of(f"({2**40}, {2**40})"),
    "a size below zero": _npy_of("(-1, 4)"),
    "a size that is no number": _npy_of("(40, 'x')"),
    "an unknown type": _npy_of("(40, 4)", "'<q9'"),
    "a type of another kind": _npy_of("(40, 4)", "[[[('x', )]]]"),
    "minus signs": _npy_header("-" * 9000 + "1"),
    "brackets": _npy_header("[" * 9000),
    "an open brace": _npy_header("{'descr'"),
    "four thousand digits": _npy_of(f"({'9' * 4400}, 4)"),
    "version 9": _npy_header("{}", b"\x09\0"),
    "no header": b"\x93NUMPY\1\0",
}
_LABELS: dict[str, bytes] = {
    "objects": npy(np.array([{}] * 40)),
    "measured": npy(np.arange(40) / 2),
    "complex": npy(np.ones(40, complex)),
    "infinite": npy(np.full(40, np.inf)),
    "two dimensions": npy(np.ones((40, 1), int)),
    "too few": npy(np.arange(39) % 2),
    "too many": npy(np.arange(41) % 2),
    "one number": npy(1),
    "bytes that are no text": npy(np.full(40, b"\xff")),
    "empty text": npy(np.full(40, "")),
    "no dates": npy(np.full(40, np.datetime64("NaT"))),
    "records": npy(np.zeros(40, [("x", "i8")])),
    "2^40": _npy_of(f"({2**40},)", "'<i8'"),
    "an open brace": _npy_header("{'descr'"),
}


def _members(changes: Mapping[str, bytes | None], kind: int = zipfile.ZIP_STORED) -> Damage:
    """Of an archive: members replaced, added or, with None, dropped; checksums are right."""

    def change(content: bytes) -> bytes:
        written = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(written, "w", kind) as new:
            parts: dict[str, bytes | None] = {name: old.read(name) for name in old.namelist()}
            for name, part in {**parts, **changes}.items():
                if part is not None:
                    new.writestr(zipfile.ZipInfo(name), part, kind)
        return written.getvalue()

    return _made(change)


def _of_lzma(content: bytes) -> bytes:
    """An archive of LZMA members whose data is damaged."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", npy(np.random.default_rng(0).random((40, 4))))
        archive.writestr("y.npy", npy(np.arange(40) % 2))
    damaged = bytearray(written.getvalue())
    damaged[80:120] = b"\xff" * 40
    return bytes(damaged)


def _encrypted(content: bytes) -> bytes:
    """Every member marked as encrypted."""
    marked = bytearray(content)
    for mark, distance in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        for match in re.finditer(re.escape(mark), content):
            marked[match.start() + distance] |= 1
    return bytes(marked)


_NPZ: dict[str, Damage] = {
    **{f"X: {name}": _members({"X.npy": content}) for name, content in _ARRAYS.items()},
    **{f"y: {name}": _members({"y.npy": content}) for name, content in _LABELS.items()},
    "no X": _members({"X.npy": None}),
    "no y": _members({"y.npy": None}),
    "two of each": _members({"features.npy": npy(np.ones((40, 4))), "labels.npy": npy(np.ones(40))}),
    "X is no array": _members({"X.npy": b"text"}),
    "damaged LZMA": _made(_of_lzma),
    "named but not there": _made(lambda content: content.replace(b"X.npy", b"X\0npy")),
    "encrypted": _made(_encrypted),
}

_IDX: dict[str, Damage] = {
    "another type": _made(lambda content: b"\0\0\7\3" + content[4:]),
    "nine dimensions": b"\0\0\x08\x09" + b"\0\0\0\1" * 9 + b"\1",
    "cut in its header": b"\0\0\x08\3\0\0\0\x28\0\0",
    "cut short": _made(lambda content: content[:-1]),
    "a byte too many": _made(lambda content: content + b"\0"),
    "2^96 bytes": b"\0\0\x08\3" + b"\xff" * 12,
    "2^62 columns of nothing": b"\0\0\x08\3\0\0\0\0" + b"\x80\0\0\0" * 2,
    "no columns": b"\0\0\x08\3\0\0\0\x28\0\0\0\0\0\0\0\2",
    "no images": _made(lambda content: b"\0\0\x08\1" + content[4:]),
    "floats that are no numbers": _made(lambda content: b"\0\0\x0d" + content[3:16] + b"\xff" * 640),
}
_IDX_LABELS: dict[str, Damage] = {
    "too few": gzip.compress(b"\0\0\x08\1\0\0\0\x27" + bytes(39)),
    "1.6 GB of zeros": gzip.compress(b"\0\0\x08\1\x60\0\0\0" + bytes(1 << 26)),
    "two dimensions": gzip.compress(b"\0\0\x08\2\0\0\0\x28\0\0\0\1" + bytes(40)),
    "damaged": _made(lambda content: content[:20] + b"\xff\xff" + content[22:]),
    "followed by noise": _made(lambda content: content + _NOISE),
    "measured": gzip.compress(b"\0\0\x0e\1\0\0\0\x28" + np.full(40, 0.5, ">f8").tobytes()),
}


def _header(changes: Mapping[str, Any], part: str | None = "content") -> Damage:
    """A container whose header, or the content in it, says other things."""

    def change(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("lcml.json"))
        (header if part is None else header[part]).update(changes)
        write(path, _members({"lcml.json": json.dumps(header).encode()}))

    return change


_CONTAINER: dict[str, Damage] = {
    "no header": _members({"lcml.json": None}),
    "a header of brackets": _members({"lcml.json": _BRACKETS.encode()}),
    "a header that is no object": _members({"lcml.json": b"[]"}),
    "a header of digits": _members({"lcml.json": f'{{"version": {_DIGITS}}}'.encode()}),
    "newer": _header({"version": 99}, None),
    "older than all": _header({"version": 0}, None),
    "another kind": _header({"format": "lcml nothing"}, None),
    "arrays that are none": _header({"arrays": 3}, None),
    "arrays without names": _header({"arrays": [None]}, None),
    "texts that are none": _header({"texts": {"a": 1}}, None),
    "content that is none": _header({"content": []}, None),
    "a member too many": _members({"more.npy": npy(1.0)}),
    "compressed": _members({}, zipfile.ZIP_DEFLATED),
    "something before it": _made(lambda content: b"#!/bin/sh\n" + content),
    "something behind it": _made(lambda content: content + b"more"),
    "twice": _made(lambda content: content * 2),
}
_LCML: dict[str, Damage] = {
    **_CONTAINER,
    "no bias": _members({"bias.npy": None}),
    "a bias of objects": _members({"bias.npy": npy([{}])}),
    "a bias of 2^40": _members({"bias.npy": _npy_of(f"({2**40},)")}),
    "weights that are no numbers": _members({"bias.npy": npy([np.nan])}),
    "a cycle in the vtree": _members({"0/vtree/left.npy": npy(np.array([6, -1, -1, -1, 2, 0, 4], np.int32))}),
    "a child beyond all": _members({"0/circuit/elem_prime.npy": npy(np.full(9, 2**31 - 1, np.int32))}),
    "gates out of order": _members({"0/circuit/or_start.npy": npy(np.array([0, 9, 4, 9], np.int32))}),
    "one class": _header({"classes": ["y"]}),
    "a class twice": _header({"classes": ["y", "y"]}),
    "classes of lists": _header({"classes": [[], []]}),
    "classes of both types": _header({"classes": [0, "y"]}),
    "a link of its own": _header({"link": ["sigmoid"]}),
    "an encoder of its own": _header({"encoder": {}}),
    "no views": _header({"views": []}),
    "a view of its own": _header({"views": [{"kind": "window"}]}),
    "a view of 2^62": _header({"views": [{"kind": "identity", "n_inputs": 2**62}]}),
    "a provenance that is none": _header({"provenance": 3}),
}
_CHECKPOINT: dict[str, Damage] = {
    **_CONTAINER,
    "a model": lambda path: shutil.copy(path.with_name("model.lcml"), path),
    "no weights": _members({"last/weights.npy": None}),
    "weights of another type": _members({"last/weights.npy": npy(np.zeros((1, 9), np.float32))}),
    "splits of another length": _members({"splits/part.npy": npy(np.zeros(99, np.int32))}),
    "a split of nothing": _members({"splits/element.npy": npy(np.full(1, 2**31 - 1, np.int32))}),
    "no config": _header({"config": {}}),
    "a config of its own": _header({"config": {"rounds": "many"}}),
    "a config of lists": _header({"config": [1]}),
    "a name that is none": _header({"run_name": 3}),
    "a fingerprint that is none": _header({"fingerprint": None}),
    "a state of its own": _header({"state": {"best": 3}}),
    "rounds of their own": _header({"rounds": [{"phase": "grow"}]}),
    "other data": _header({"fingerprint": "ab" * 32}),
    "no views": _header({"views": []}),
}

_CIRCUIT: dict[str, Damage] = {
    "no first line": _text("Logistic Circuit\n", ""),
    "another first line": _text("Logistic", "Electric"),
    "a word too many": _text("D 10", "D 10 10"),
    "an unknown line": _text("B -", "Q -"),
    "no bias": _made(lambda content: content[: content.index(b"\nB ") + 1]),
    "cut in the bias": _made(lambda content: content[:-1]),
    "something behind the bias": _made(lambda content: content + b"B 1\n"),
    "a node twice": _text("T 1 1 2", "T 0 1 2"),
    "a leaf of another variable": _text("T 1 1 2", "T 1 1 3"),
    "a leaf beyond all": _text("T 1 1 2", "T 1 99 2"),
    "a node of nineteen digits": _text("T 1 ", f"T {'1' * 19} "),
    "five thousand digits": _text("T 1 ", f"T {_DIGITS} "),
    "a size below zero": _text("D 8 4 4", "D 8 4 -4"),
    "a size of another": _text("D 8 4 4", "D 8 4 3"),
    "a size of 10^17": _text("D 8 4 4", f"D 8 4 {10**17}"),
    "a child below it": _text("(2 3 ", "(10 3 "),
    "a child that is no other's": _text("(2 3 ", "(0 3 "),
    "a weight that is no number": _text("T 0 0 1 0.0", "T 0 0 1 nan"),
    "a weight too large": _text("T 0 0 1 0.0", "T 0 0 1 1e999"),
    "a weight too many": _text("T 0 0 1 0.0", "T 0 0 1 0.0 0.0"),
    "an open bracket": _text(" 0.0)\nB", " 0.0\nB"),
    "not deterministic": _text("(2 7 ", "(2 3 "),
    "no gates": _made(lambda content: b"\n".join(line for line in content.split(b"\n") if line[:1] != b"D")),
}
_VTREE: dict[str, Damage] = {
    "no first line": _text("vtree 7\n", ""),
    "an even number": _text("vtree 7", "vtree 6"),
    "another number": _text("vtree 7", "vtree 9"),
    "10^17 nodes": _text("vtree 7", f"vtree {10**17 + 1}"),
    "a number below zero": _text("vtree 7", "vtree -7"),
    "five thousand digits": _text("vtree 7", f"vtree {_DIGITS}"),
    "a node twice": _text("L 1 2", "L 0 2"),
    "a variable twice": _text("L 1 2", "L 1 1"),
    "variable 0": _text("L 1 2", "L 1 0"),
    "a child of two": _text("I 5 0 1", "I 5 0 2"),
    "a child of itself": _text("I 5 0 1", "I 5 5 1"),
    "a child below it": _text("I 4 2 3", "I 4 6 3"),
    "a word too few": _text("I 4 2 3", "I 4 2"),
    "an unknown line": _text("I 4 2 3", "J 4 2 3"),
    "cut": _text("I 6 4 5\n", ""),
    "of other variables": "vtree 3\nL 0 1\nL 1 2\nI 2 0 1\n",
}
_PSDD: dict[str, Damage] = {
    "no first line": _text("psdd 11\n", ""),
    "another number": _text("psdd 11", "psdd 12"),
    "five thousand digits": _text("psdd 11", f"psdd {_DIGITS}"),
    "a literal of another leaf": _text("L 0 0 1", "L 0 0 2"),
    "literal 0": _text("L 0 0 1", "L 0 0 0"),
    "a literal twice negated": _text("L 0 0 1", "L 0 0 --1"),
    "a node twice": _text("L 0 0 1", "L 1 0 1"),
    "an unknown line": _text("L 0 0 1", "F 0 0 1"),
    "a free variable above 1": _text("L 0 0 1", "T 0 0 1 0.5"),
    "a free variable of nothing": _text("L 0 0 1", "T 0 0 1"),
    "no gates": _made(lambda content: b"\n".join(line for line in content.split(b"\n") if line[:1] != b"D")),
    "a sum of 2": _text(" 1 8 9 0.0", " 2 8 9 0.0 8 9 0.0"),
    "a word too few": _text(" 1 8 9 0.0", " 1 8 9"),
    "a gate as its own child": _text(" 1 8 9 0.0", " 1 8 10 0.0"),
}


def _onnx(change: Callable[[Any], object]) -> Damage:
    def rewrite(path: Path) -> None:
        model = onnx.load(path)
        change(model)
        path.write_bytes(model.SerializeToString())

    return rewrite


def _input(model: Any) -> Any:
    return model.graph.input[0].type.tensor_type


def _metadata(key: str, value: str) -> Damage:
    return _onnx(lambda model: helper.set_model_props(model, {key: value}))


_ONNX: dict[str, Damage] = {
    "no outputs": _onnx(lambda model: model.graph.ClearField("output")),
    "no inputs": _onnx(lambda model: model.graph.ClearField("input")),
    "no nodes": _onnx(lambda model: model.graph.ClearField("node")),
    "no weights": _onnx(lambda model: model.graph.ClearField("initializer")),
    "no opset": _onnx(lambda model: model.ClearField("opset_import")),
    "another batch": _onnx(lambda model: setattr(_input(model).shape.dim[0], "dim_value", 1)),
    "2^40 features": _onnx(lambda model: setattr(_input(model).shape.dim[1], "dim_value", 2**40)),
    "a type of its own": _onnx(lambda model: setattr(_input(model), "elem_type", 99)),
    "an operator of its own": _onnx(lambda model: setattr(model.graph.node[0], "op_type", "Guess")),
    "an input of its own": _onnx(lambda model: model.graph.node[0].input.__setitem__(0, "nothing")),
    "classes of brackets": _metadata("lcml.classes", _BRACKETS),
    "classes of digits": _metadata("lcml.classes", _DIGITS),
    "too many classes": _metadata("lcml.classes", '["a", "b", "c"]'),
    "names that are none": _metadata("lcml.feature_names", "3"),
}
_SIDECAR: dict[str, Damage] = {
    "cut": _made(lambda content: content[:-1]),
    "no object": "[]",
    "nothing in it": "{}",
    "another name": '{"condition": []}',
    "a number": '{"conditions": 3}',
    "digits": f'{{"conditions": {_DIGITS}}}',
    "too few": '{"conditions": ["a"]}',
    "other types": '{"conditions": [1, 2, 3, 4, 5, 6, 7]}',
    "null": "null",
    "no text": b'{"conditions": ["\xff"]}',
}
_TOML: dict[str, Damage] = {
    "no TOML": "rounds: 3\n",
    "a name twice": "rounds = 3\nrounds = 4\n",
    "two spellings": "l2-path = [1.0]\nl2_path = [1.0]\n",
    "an unknown name": "roundz = 3\n",
    "a name of 25 kB": f"{'x' * 25_000} = 3\n",
    "text for a number": 'rounds = "3"\n',
    "a truth for a number": "rounds = true\n",
    "a number below zero": "rounds = -1\n",
    "2^63": f"rounds = {2**63}\n",
    "digits": f"rounds = {_DIGITS}\n",
    "hexadecimal digits": f"rounds = 0x{'f' * 9000}\n",
    "no number": "l2 = nan\n",
    "infinity": "growth = inf\n",
    "a list for a number": "rounds = [3]\n",
    "a table": "[rounds]\na = 1\n",
    "a list of lists": "l2_path = [[0.1]]\n",
    "a list too short": "vtree_offset = [1]\n",
    "a list of brackets": f"view = {_BRACKETS}\n",
    "tables in tables": "a = " + "{a = " * 20_000 + "1" + "}" * 20_000,
    "a choice of its own": 'link = "cosine"\n',
    "a date": "rounds = 1979-05-27\n",
    "a view of 5,000 digits": f'view = "window={_DIGITS}"\n',
    "a shape of its own": 'image_shape = "2x"\n',
    "a shape of zero": 'image_shape = "0x4"\n',
    "a distortion of its own": 'augment = "copies=many"\n',
    "an address that is none": 'tracking_uri = "http://["\n',
    "what cannot be set there": 'resume = "x"\n',
    "no text": b'output = "\xff"\n',
    "a zero in a path": 'output = "a\\u0000b"\n',
    "a zero in a directory": 'data_dir = "a\\u0000b"\n',
    "a zero in an address": 'tracking_uri = "sqlite:///a\\u0000b"\n',
}


def _line(number: int, **changes: Any) -> Damage:
    """The spool with fields of one line changed or, with the value Ellipsis, dropped."""

    def change(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        fields = {**json.loads(lines[number]), **changes}
        kept = {name: value for name, value in fields.items() if value is not ...}
        lines[number] = json.dumps(kept).encode() + b"\n"
        return b"".join(lines)

    return _made(change)


_SPOOL: dict[str, Damage] = {
    "no object": "[]\n",
    "lines of brackets": _made(lambda content: content + _BRACKETS.encode() + b"\n"),
    "digits": _made(lambda content: content + f'{{"type": "metrics", "time": {_DIGITS}}}\n'.encode()),
    "an infinite time": _line(3, time=math.inf),
    "an infinite step": _line(1, step=math.inf),
    "no first line": _made(lambda content: content.split(b"\n", 1)[1]),
    "two first lines": _made(lambda content: content.split(b"\n", 1)[0] + b"\n" + content),
    "another version": _line(0, format=1),
    "no key": _line(0, key=...),
    "a field of its own": _line(0, more=1),
    "no data": _line(0, dataset=None),
    "data of its own": _line(0, dataset={"name": 3}),
    "an address that is none": _line(0, uri=3),
    "a name that is none": _line(0, name=["a"]),
    "parameters that are none": _line(0, params=[1]),
    "a parameter of a list": _line(0, params={"a": [1]}),
    "tags that are none": _line(0, tags="kind"),
    "a time that is none": _line(0, time="noon"),
    "metrics that are none": _line(1, values=[1]),
    "a metric of text": _line(1, values={"loss": "low"}),
    "a step of text": _line(1, step="one"),
    "a file elsewhere": _line(2, file="../model.lcml"),
    "a name elsewhere": _line(2, name="/etc/passwd"),
    "a file that is none": _line(2, file=3),
    "a loader that is none": _line(2, loader=3),
    "a status of its own": _line(3, status="HAPPY"),
    "a status of a list": _line(3, status=[]),
    "a type of its own": _line(3, type="coffee"),
    "a type of a list": _line(3, type=[]),
    "no type": _line(3, type=...),
}

OF_FORMAT: Mapping[str, Mapping[str, Damage]] = {
    **{form: _tables(form) for form in ("csv", "tsv", "csv.gz")},
    "parquet": _PARQUET,
    "npy": _ARRAYS,
    "npy labels": _LABELS,
    "npz": _NPZ,
    "npz compressed": {},
    **{f"mixed {kind}": {} for kind in ("csv", "parquet", "lcml", "onnx", "checkpoint")},
    "idx": _IDX,
    "idx gz": _IDX_LABELS,
    "lcml": _LCML,
    "circuit": _CIRCUIT,
    "psdd": _PSDD,
    "vtree": _VTREE,
    "onnx": _ONNX,
    "sidecar": _SIDECAR,
    "toml": _TOML,
    "checkpoint": _CHECKPOINT,
    "spool": _SPOOL,
}
"""Done to files of one format, and given to the first of its commands."""


def cases(form: str) -> list[tuple[str, Damage, str]]:
    """What is wrong, how it is made, and the command that is given it."""
    commands = FORMATS[form].commands
    every = [
        (name, damage, command)
        for name, damage in EVERY.items()
        for command in commands
        if (form, name) not in TOLERATED
    ]
    return every + [(name, damage, commands[0]) for name, damage in OF_FORMAT[form].items()]


OPTIONS = (
    *("train table.csv --view window=" + _DIGITS, "train table.csv --channels " + "x" * 25_000),
    *("train table.csv --augment copies=" + _DIGITS, "train table.csv --image-shape 9999999x9999999"),
    *("train table.csv --tracking-uri http://[", "train table.csv --tracking-uri http://a:b", "runs --tracking-uri x"),
    *("train table.csv --data-dir /dev/null", "train " + "d" * 5000, "train /", "train ''"),
    *("train table.csv --target " + "t" * 25_000, "train table.csv --output /proc/x.lcml", "train table.csv -o -"),
    *(
        "train table.csv --growth 1e308 --rounds 99999999999999999999",
        "train table.csv --encoder scale --max-parameters 1",
    ),
    *("train table.csv --vtree grid", "train table.csv --valid-fraction 1"),
    *("train --resume " + "r" * 5000, "train --resume .", "train --recipe " + "r" * 5000, "train --config ."),
    *("runs --tracking-uri sqlite:///table.csv", "runs --tracking-uri sqlite:////proc/no/mlflow.db", "runs --all"),
    *("runs --replay nothing", "register nothing --name a --tracking-uri sqlite:///nothing.db"),
    *("explain model.lcml table.csv --row 99999999999", "evaluate model.lcml table.csv --rows some"),
    *("predict model.lcml table.csv -o /dev/full", "compact model.lcml -o .", "convert model.lcml -o other.lcml"),
    *("convert model.circuit --vtree model.vtree --scale nan -o out.lcml",),
    *("convert model.circuit --vtree model.vtree --classes a,a -o out.lcml",),
    *("export model.lcml -o out.onnx --opset 99999999999", "export model.lcml -o out.onnx --profile fast"),
    *("export model.lcml -o out --name ../x", "export model.lcml -o out --version -1", "export --run nothing"),
    *("serve nothing.onnx", "serve model.onnx --port " + _DIGITS, "serve model.onnx --max-rows nan", "serve"),
    *("serve models:/" + "m" * 5000, "serve model.onnx --token-file ."),
    *("reproduce --row nothing --no-tracking", "bench table.csv", "bench model.lcml nothing"),
)
"""Commands whose options, not files, are wrong."""
