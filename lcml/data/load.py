"""From the name or path of a data set to examples for training, validation and test."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from lcml.backend import get_backend
from lcml.data.arrow import release_memory
from lcml.data.division import DataSplits, Examples, divide
from lcml.data.idx import read_idx_directory
from lcml.data.labels import code_labels
from lcml.data.named import NAMED_SETS, read_named
from lcml.data.npy import FEATURES, read_npy_directory
from lcml.data.npz import read_npz
from lcml.data.raw import RawSet, listed
from lcml.data.tables import is_table, read_table
from lcml.errors import DataError

_DATA_SHARE = 0.25
"""The share of the memory budget that features may take, raw and encoded. The flows of those that take more would
exceed the budget themselves: literals alone are twice as many as features."""

VALID_FRACTION, TEST_FRACTION, TRAIN_FRACTION = 0.1, 0.2, 1.0
UNLABELLED = -1
"""The code of an example whose label was not asked for."""

SplitName: TypeAlias = Literal["train", "valid", "test"]
RowsName: TypeAlias = Literal["train", "valid", "test", "all"]


def load_splits(
    source: str | Path,
    *,
    target: str | None = None,
    data_dir: str | Path | None = None,
    valid_fraction: float = VALID_FRACTION,
    test_fraction: float = TEST_FRACTION,
    train_fraction: float = TRAIN_FRACTION,
    seed: int = 0,
    memory_budget: int | None = None,
    numbers: bool = False,
    read: Callable[[Path, str | None], RawSet | None] | None = None,
) -> DataSplits:
    """Read a data set and divide it: the same arguments give the same division.

    `source` is one of NAMED_SETS, a directory (IDX files, Parquet parts, features.npy and labels.npy), or an .npz,
    .csv, .tsv (these also gzipped) or .parquet file (`target`: the column of labels); a relative path is taken from
    `data_dir` where that is given. Features that take more than a quarter of `memory_budget` (bytes; by default most of
    the memory available), raw and encoded, stay on disk as `lcml.inputs.rows.Rows`, where their format allows it (not
    gzipped IDX, .npz or text). With `numbers` a table may hold finite numbers alone. read: reads the set at a path,
    unless it returns None.

    A source with test examples of its own keeps them; otherwise `test_fraction` of all is set aside. Then
    `train_fraction` of the others is kept, and `valid_fraction` of those goes to validation. Every choice is
    stratified; `train_fraction` does not change the test set.

    Raises DataError for data that cannot be learned from and fractions out of range, FormatError for damaged files.
    """
    path = Path(data_dir or "", source)
    if target is not None and (str(source) in NAMED_SETS or not is_table(path)):
        raise DataError(f"--target {target!r} names a column of a table, but {source} is none; leave it out")
    raw = read(path, target) if read is not None else None
    raw = raw or _read(source, target, data_dir, memory_budget=memory_budget)
    raw.check_finite(tables=numbers)
    return divide(raw, valid_fraction, test_fraction, train_fraction, seed)


def load_rows(
    source: str | Path,
    *,
    classes: Sequence[int | str] | None = None,
    feature_names: Sequence[str] | None = None,
    target: str | None = None,
    data_dir: str | Path | None = None,
    split: RowsName = "test",
    require_labels: bool = True,
    gaps: bool = False,
    texts: Collection[str] = (),
    valid_fraction: float = VALID_FRACTION,
    test_fraction: float = TEST_FRACTION,
    train_fraction: float = TRAIN_FRACTION,
    seed: int = 0,
) -> tuple[Examples, RowsName]:
    """Examples for a model that knows `classes` and was trained on `feature_names`, and which rows of the data these
    are.

    A named set, or a source with test examples of its own, gives the `split` that `load_splits` makes of it with the
    same fractions and seed, or all of it; any other file is given whole. Tables are read by column name, in any order,
    and may hold more columns. Without `require_labels` every label is UNLABELLED and a target need not be there.
    With `gaps` arrays may hold NaN, as tables always may. `texts`: columns that are text in a CSV, whatever it holds.

    Raises DataError for labels outside `classes` and another number of features, else as `load_splits`.
    """
    raw = _read(source, target, data_dir, feature_names, require_labels, texts=texts)
    if not gaps:
        raw.check_finite()
    if feature_names is not None and len(raw.feature_names) != len(feature_names):
        raise DataError(
            f"{raw.source} has {len(raw.feature_names)} features, but the model was trained on {len(feature_names)}; "
            "give the features trained on"
        )
    which: RowsName = "all"
    if str(source) in NAMED_SETS or raw.test_features is not None:
        splits = divide(raw, valid_fraction, test_fraction, 1.0 if split == "all" else train_fraction, seed)
        which = split
        every = [splits.train, splits.valid, splits.test] if split == "all" else [getattr(splits, split)]
        part = reduce(Examples.joined, [examples for examples in every if len(examples)] or every[:1])
        if len(part) == 0:
            raise DataError(f"{raw.source} has no {split} examples with these fractions; choose another split")
        classes = splits.classes if classes is None else classes
        raw = replace(raw, features=part.features, labels=np.asarray(splits.classes)[part.labels], test_features=None)
    if not require_labels or raw.labels is None:
        return Examples(raw.features, np.full(len(raw.features), UNLABELLED, np.int64)), which
    return Examples(raw.features, code_labels(raw.labels, raw.source, classes)[1]), which


def load_examples(source: str | Path, **options: Any) -> Examples:
    """The examples that `load_rows` gives."""
    return load_rows(source, **options)[0]


def _read(
    source: str | Path,
    target: str | None,
    data_dir: str | Path | None,
    feature_names: Sequence[str] | None = None,
    require_labels: bool = True,
    memory_budget: int | None = None,
    texts: Collection[str] = (),
) -> RawSet:
    memory = _DATA_SHARE * get_backend("numpy").memory_budget()
    if memory_budget is not None:
        memory = min(memory, _DATA_SHARE * memory_budget)
    if str(source) in NAMED_SETS:
        return read_named(str(source), data_dir, memory)
    if not str(source):
        raise DataError(f"the name of the data set is empty; give one of {listed(NAMED_SETS)}, or a path")
    path = Path(data_dir or "", source)
    if os.path.exists(path / FEATURES):  # False too where the directory cannot be looked into: below, `path` is named
        return read_npy_directory(path, memory, require_labels)
    if path.is_dir() and not is_table(path):
        return read_idx_directory(path, memory)
    if not path.exists():
        raise DataError(
            f"there is no data set and no file {str(path)!r}; give one of {listed(NAMED_SETS)}, or the path of a "
            "directory (IDX files, features.npy and labels.npy, or .parquet parts) or of an .npz, .csv, .tsv or "
            ".parquet file"
        )
    if not (path.is_file() or path.is_dir()):
        raise DataError(f"{path} is no regular file; copy what it gives into one")
    if is_table(path):
        found = read_table(path, memory, target, feature_names, require_labels, texts)
        release_memory()
        return found
    if path.suffix.lower() == ".npz":
        return read_npz(path, require_labels)
    raise DataError(
        f"{path}: unknown kind of file {path.suffix!r}; expected .npz, .csv, .tsv (these also with .gz), .parquet or a "
        "directory"
    )
