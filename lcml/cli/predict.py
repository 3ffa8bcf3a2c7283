"""`lcml predict`."""

import contextlib
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from lcml.cli.common import (
    BackendOption,
    DataArgument,
    DataDirOption,
    ModelArgument,
    TargetOption,
    note,
    open_backend,
    option,
    require_packages,
)

if TYPE_CHECKING:
    from lcml.arrays import FloatArray
    from lcml.backend import Backend
    from lcml.inputs.rows import Matrix
    from lcml.model.model import LogisticCircuit

BLOCK = 1 << 16
"""Rows that are predicted and written at a time."""

_PARQUET = ".parquet"


def predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[
        str | None, option("Where to write; by default stdout.", "--output", "-o", metavar="FILE.csv|FILE.parquet")
    ] = None,
    proba: Annotated[bool, option("Whether to add a column of probabilities per class.", "--proba/--no-proba")] = True,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    backend: BackendOption = "auto",
) -> None:
    """Predict: a row per example, in the order of the data, with the label and the probability of every class.

    As CSV, or as Parquet into a file that is called so. Data that memory does not hold are read, predicted and written
    piece by piece. The data need no labels. Of a named set, or one with test examples of its own, the test examples are
    predicted.
    """
    from lcml.cli.inputs import read_examples
    from lcml.files import atomic_writer
    from lcml.formats import load_model

    to_parquet = output is not None and output.lower().endswith(_PARQUET)
    if to_parquet:
        require_packages("pyarrow", extra="tables", purpose="writing Parquet")
    device = open_backend(backend)
    loaded = load_model(model)
    examples = read_examples(loaded, data, target=target, data_dir=data_dir, require_labels=False)
    rows, started = examples.features, monotonic()
    blocks = _blocks(loaded, rows, device)
    if output in (None, "-"):
        for line in _lines(loaded, blocks, proba):
            typer.echo(line, nl=False)
        return
    with atomic_writer(output) as file:
        if to_parquet:
            _write_parquet(file, loaded, blocks, proba)
        else:
            file.writelines(line.encode() for line in _lines(loaded, blocks, proba))
    seconds = monotonic() - started
    note(f"{len(rows):,} rows in {seconds:.1f} s, {len(rows) / seconds:,.0f} rows/s")


def _blocks(model: "LogisticCircuit", rows: "Matrix", backend: "Backend") -> "Iterator[FloatArray]":
    """Logits, block by block; of rows in memory all at once, so that an error comes first and names the row's place."""
    from lcml.inputs.rows import RowSet

    is_stored = isinstance(rows, RowSet) and rows.is_stored
    every = None if is_stored else model.logits(rows, backend)
    for at in range(0, max(len(rows), 1), BLOCK):
        yield model.logits(rows[at : at + BLOCK], backend) if every is None else every[at : at + BLOCK]


def _columns(model: "LogisticCircuit", logits: "FloatArray", proba: bool) -> dict[str, Any]:
    """The columns of a block of predictions: a list of labels, and an array of the probability of every class."""
    columns = {"label": [model.classes[code] for code in model.codes(logits).tolist()]}
    if proba:
        by_class = model.head.probabilities(logits).T
        columns |= {f"probability_{name}": own for name, own in zip(model.classes, by_class, strict=True)}
    return columns


def _lines(model: "LogisticCircuit", blocks: "Iterable[FloatArray]", proba: bool) -> Iterator[str]:
    """CSV: a header, then a line per example; probabilities in the shortest form that reads back exactly."""
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for number, logits in enumerate(blocks):
        columns = _columns(model, logits, proba)
        if not number:
            writer.writerow(columns)
        label, *others = columns.values()
        writer.writerows(zip(label, *(own.tolist() for own in others), strict=True))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _write_parquet(file: BinaryIO, model: "LogisticCircuit", blocks: "Iterable[FloatArray]", proba: bool) -> None:
    """A row group per block."""
    import pyarrow as pa
    from pyarrow import parquet

    with contextlib.ExitStack() as stack:
        writer = None
        for logits in blocks:
            table = pa.table(_columns(model, logits, proba))
            writer = writer or stack.enter_context(parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
