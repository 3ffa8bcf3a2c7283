"""Drift: whether what a model is asked resembles what it was trained on, by the shares of bins then and now.

The metadata lcml.reference say the shares p of the bins of every column, and of the classes, in training; the latest
rows have the shares q. The population stability index of a column,

    PSI = sum over bins of (q - p) ln(q / p),    p and q at least 1e-4,

is by custom no drift below 0.1, some up to 0.25, and much above (Siddiqi, Credit Risk Scorecards, 2006).
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml_serving.signature import Array, Signature

_LEAST_SHARE = 1e-4
_AT_ONCE = 256
"""Rows that are counted together: many, since numpy's calls cost more than the rows; not so many that requests wait."""


@dataclass(frozen=True)
class Shares:
    """Of the latest `n_rows` rows: PSI, and the shares of gaps and of unknown categories (None where that cannot be
    told), by column; of the predicted classes their shares and PSI."""

    n_rows: int
    psi: Mapping[str, float]
    missing: Mapping[str, float]
    unknown: Mapping[str, float]
    classes: Mapping[str, float]
    class_psi: float


class Drift:
    """Counts the rows of one model. Two halves of `window` rows each are kept, and the older one forgotten as the newer
    is full, so the latest window to two windows count. Raises KeyError, TypeError or ValueError for a reference that
    does not fit the signature."""

    def __init__(self, reference: Mapping[str, Any], signature: Signature, window: int) -> None:
        self._window = window
        self._classes = {str(name): float(share) for name, share in dict(reference["classes"]).items()}
        place = {column.name: j for j, column in enumerate(signature.columns)}
        told = reference.get("columns", []) if signature.columns else []
        self._columns = [_Bins(one, place[one["name"]], signature) for one in told]
        self._waiting: list[tuple[tuple[Array, ...], Array]] = []
        self._n_waiting = 0
        self._none = [np.zeros(len(bins.reference) + 1) for bins in self._columns]
        self._now = self._before = self._none
        self._labels, self._labels_before = Counter[str](), Counter[str]()

    def add(self, inputs: tuple[Array, ...], labels: Array) -> None:
        self._waiting.append((inputs, labels))
        self._n_waiting += len(labels)
        if self._n_waiting >= _AT_ONCE:
            self._count()

    def shares(self) -> Shares | None:
        """Of the latest rows; None where there are none."""
        self._count()
        labels = self._labels + self._labels_before
        if not (n := labels.total()):
            return None
        classes = {name: labels[name] / n for name in self._classes}
        halves = zip(self._columns, self._now, self._before, strict=True)
        found = [(bins, (now + before) / n) for bins, now, before in halves]
        return Shares(
            n,
            {bins.name: psi(bins.reference, shares[:-1]) for bins, shares in found},
            {bins.name: float(shares[-2]) for bins, shares in found},
            {bins.name: float(shares[-1]) for bins, shares in found if bins.knows_all},
            classes,
            psi(np.array([*self._classes.values()]), np.array([*classes.values()])),
        )

    def _count(self) -> None:
        if not self._waiting:
            return
        inputs, labels = zip(*self._waiting, strict=True)
        self._waiting.clear()
        self._n_waiting = 0
        self._now = [
            now + bins.counts(np.concatenate([of_request[bins.place] for of_request in inputs])[:, 0])
            for bins, now in zip(self._columns, self._now, strict=True)
        ]
        self._labels.update(map(str, np.concatenate(labels).tolist()))
        if self._labels.total() >= self._window:
            self._before, self._now = self._now, self._none
            self._labels_before, self._labels = self._labels, Counter()


class _Bins:
    """The bins of one column, that of gaps last, and their shares in training."""

    def __init__(self, told: Mapping[str, Any], place: int, signature: Signature) -> None:
        column = signature.columns[place]
        self.name, self.place = column.name, place
        self.reference = np.array(told["shares"], np.float64)
        self._edges = np.array(told.get("edges", []), np.float64)
        self._place_of = {str(category): i for i, category in enumerate(told.get("categories", []))}
        self._is_text = "categories" in told
        if self.reference.shape != (len(self._place_of) + 2 if self._is_text else len(self._edges) + 2,):
            raise ValueError(f"column {column.name}: {len(self.reference)} shares")
        self._known = frozenset(column.categories)
        self.knows_all = self._is_text and len(self._known) == column.n_categories

    def counts(self, values: Array) -> NDArray[np.float64]:
        """(n_bins + 1,) how many values are in each bin, and last how many are of unknown categories."""
        found, gap = np.zeros(len(self.reference) + 1), len(self.reference) - 1
        if self._is_text:
            for text, n in Counter(values.tolist()).items():
                found[gap if text == "" else self._place_of.get(text, gap - 1)] += n
                found[-1] += n * (text != "" and text not in self._known)
        else:
            edges = self._edges.astype(values.dtype) if values.dtype.kind == "f" else self._edges  # as rounded
            bins = np.searchsorted(edges, values, side="right")
            bins[np.isnan(values)] = gap
            found += np.bincount(bins, minlength=len(found))
        return found


def psi(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """The population stability index of the shares q against p, see the module."""
    p, q = np.maximum(p, _LEAST_SHARE), np.maximum(q, _LEAST_SHARE)
    return float(((q - p) * np.log(q / p)).sum())


def drift_of(metadata: Mapping[str, str], signature: Signature, window: int) -> Drift | None:
    """That of a model with the metadata lcml.reference; None without one, or without a window.

    Raises ValueError where the metadata are damaged.
    """
    if not window or "lcml.reference" not in metadata:
        return None
    try:
        return Drift(json.loads(metadata["lcml.reference"]), signature, window)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata lcml.reference are damaged: {error!r}; export the model again") from error
