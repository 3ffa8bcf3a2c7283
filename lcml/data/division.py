"""Division of a data set into training, validation and test examples, stratified and seeded."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lcml.data.labels import code_labels
from lcml.data.raw import RawSet
from lcml.data.stratify import apportion, draw
from lcml.errors import DataError
from lcml.inputs.rows import Matrix, Rows, chunks, join, select
from lcml.inputs.table import Table


@dataclass(frozen=True, eq=False)
class Examples:
    """Raw features (n, d), an array or rows in a file, dtype as in the source, and labels (n,), int64 positions in the
    classes; read-only."""

    features: Matrix
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("features", "labels"):
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                array = array.view()
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: NDArray[np.intp]) -> "Examples":
        """Those rows; no copy of features in a file."""
        return Examples(select(self.features, rows), self.labels[rows])

    def joined(self, other: "Examples") -> "Examples":
        """These and then those of `other`, of the same source."""
        return Examples(join(self.features, other.features), np.concatenate([self.labels, other.labels]))


@dataclass(frozen=True, eq=False)
class DataSplits:
    """A data set divided for learning; valid or test is empty where its fraction is 0.

    `classes` are sorted; `image_shape` is (height, width) or None; `fingerprint` is the SHA-256 of all features and
    labels of the source, whatever the division; `source` says where they came from, `notes` how it was read.
    """

    name: str
    train: Examples
    valid: Examples
    test: Examples
    classes: tuple[int | str, ...]
    image_shape: tuple[int, int] | None
    feature_names: tuple[str, ...]
    fingerprint: str
    source: str
    notes: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        return {"n_train": len(self.train), "n_valid": len(self.valid), "n_test": len(self.test)}


def divide(raw: RawSet, valid_fraction: float, test_fraction: float, train_fraction: float, seed: int) -> DataSplits:
    """The division of `raw` that `lcml.data.load_splits` describes; raises DataError as it does."""
    _check_fractions(valid_fraction, test_fraction, train_fraction, seed)
    if raw.labels is None:
        raise DataError(f"{raw.source} has no labels; give one per example")
    classes, codes = code_labels(raw.labels, raw.source)
    whole = Examples(raw.features, codes)
    own_test = None
    if raw.test_features is not None and raw.test_labels is not None:
        test_codes = code_labels(raw.test_labels, f"{raw.source}, test examples", classes)[1]
        own_test = Examples(raw.test_features, test_codes)
    n_after = 1 + (valid_fraction > 0)  # the fewest examples of a class that training and validation need
    takes = {"training": True, "validation": valid_fraction > 0, "test": test_fraction > 0 and own_test is None}
    counts = np.bincount(codes, minlength=len(classes))
    _check_classes(raw.source, classes, counts, [part for part, is_taken in takes.items() if is_taken])
    rng_test, rng_train, rng_valid = (np.random.default_rng([seed, purpose]) for purpose in range(3))
    rest, test = np.arange(len(codes)), np.arange(0)
    if own_test is None and test_fraction > 0:
        rest, test = draw(codes, apportion(counts, test_fraction, least=1, leave=n_after), rng_test)
    if train_fraction < 1:
        counts = np.bincount(codes[rest], minlength=len(classes))
        n_kept = apportion(counts, train_fraction)
        if n_kept.min() < n_after:
            k = int(n_kept.argmin())
            enough = math.ceil(1000 * n_after / int(counts.min())) / 1000
            raise DataError(
                f"train_fraction {train_fraction} keeps {n_kept[k]} of {counts[k]} examples of class {classes[k]!r}, "
                f"but training and validation need {n_after}; use at least {enough}"
            )
        rest = rest[draw(codes[rest], n_kept, rng_train)[1]]
    train, valid = rest, np.arange(0)
    if valid_fraction > 0:
        counts = np.bincount(codes[rest], minlength=len(classes))
        others, chosen = draw(codes[rest], apportion(counts, valid_fraction, least=1, leave=1), rng_valid)
        train, valid = rest[others], rest[chosen]
    parts = _take(whole, train), _take(whole, valid), _take(whole, test) if own_test is None else own_test
    fingerprint = _fingerprint(classes, [whole] if own_test is None else [whole, own_test])
    shown = raw.image_shape, raw.feature_names
    return DataSplits(raw.name, *parts, classes, *shown, fingerprint, raw.source, raw.notes)


def _check_fractions(valid_fraction: float, test_fraction: float, train_fraction: float, seed: int) -> None:
    if not 0 < train_fraction <= 1:
        raise DataError(f"train_fraction must be above 0 and at most 1; found {train_fraction}")
    for name, fraction in (("valid_fraction", valid_fraction), ("test_fraction", test_fraction)):
        if not 0 <= fraction < 1:
            raise DataError(f"{name} must be at least 0 and below 1; found {fraction}")
    if seed < 0:
        raise DataError(f"the seed must be 0 or a positive whole number; found {seed}")


def _check_classes(source: str, classes: Sequence[int | str], counts: NDArray[np.intp], parts: Sequence[str]) -> None:
    if len(classes) < 2:
        raise DataError(f"{source} holds one class only, {classes[0]!r}; give examples of at least two")
    least = int(counts.min())
    if least < len(parts):
        without_test = ", or set test_fraction to 0" if "test" in parts and least == len(parts) - 1 else ""
        raise DataError(
            f"{source}: class {classes[int(counts.argmin())]!r} has {least} example(s), but {len(parts)} are needed, "
            f"one for each of {' and '.join(parts)}; add examples of it, drop it or merge it with another{without_test}"
        )


def _take(examples: Examples, rows: NDArray[np.intp]) -> Examples:
    """Those rows (ascending); no copy where they are all."""
    return examples if len(rows) == len(examples) else examples.select(rows)


def _fingerprint(classes: Sequence[int | str], parts: Sequence[Examples]) -> str:
    digest = hashlib.sha256(repr(tuple(classes)).encode())
    for part in parts:
        features = part.features
        digest.update(f"{features.dtype.str} {features.shape}".encode())
        raw = features.values if isinstance(features, Table) else features
        if isinstance(raw, Rows) and (known := getattr(raw.matrix, "digest", None)):
            digest.update(known)  # of features and labels, by those who have them
            continue
        if isinstance(features, Table):
            digest.update("".join(repr(column) for column in features.columns if column.kind != "number").encode())
            features = features.values
        for rows in chunks(features):
            digest.update(np.ascontiguousarray(features[rows]).data)
        digest.update(part.labels.astype("<i8", copy=False).data)
    return digest.hexdigest()
