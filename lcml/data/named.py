"""Data sets known by name: scikit-learn's own, and the MNIST sets from IDX files or OpenML."""

import http.client
import os
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from lcml.arrays import FloatArray
from lcml.data.idx import read_idx_directory
from lcml.data.raw import RawSet, default_names
from lcml.errors import DataError

SHIPPED = {"digits": "load_digits", "breast-cancer": "load_breast_cancer", "wine": "load_wine", "iris": "load_iris"}
"""Sets inside scikit-learn, and the function that loads each."""

IMAGE_SETS = {"mnist": "mnist_784", "fashion-mnist": "Fashion-MNIST"}
"""28 x 28 image sets, and the name of each on OpenML (version 1: the 60,000 training images, then the test images)."""

N_TRAIN, IMAGE_SHAPE, DIGITS_SHAPE = 60_000, (28, 28), (8, 8)

NAMED_SETS = (*SHIPPED, *IMAGE_SETS)
DATA_DIR_VARIABLE = "LCML_DATA_DIR"


def read_named(name: str, data_dir: str | Path | None, memory: float) -> RawSet:
    """The set called `name`, one of NAMED_SETS; `memory` as `read_idx_directory` takes it.

    The MNIST sets come from IDX files in `data_dir` (else the directory LCML_DATA_DIR): its sub-folder `name`, or the
    files right in it. Where neither is given they are fetched from OpenML. Raises DataError where nothing is there.
    """
    if name in SHIPPED:
        return _shipped(name)
    directory = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    if not directory:
        return _fetched(name)
    inside = Path(directory) / name
    if inside.is_dir():
        return read_idx_directory(inside, memory, name)
    # The files of one MNIST set are named like those of another: a folder called after the other is not this one.
    if Path(directory).resolve().name in set(IMAGE_SETS) - {name}:
        raise DataError(f"{directory} is the folder of another set than {name}; give the one above it as --data-dir")
    if not any(Path(directory).glob("train-images*")):
        raise DataError(
            f"{directory} holds no {name}; give a directory with a sub-folder {name} or with "
            f"train-images-idx3-ubyte.gz and its three companions as --data-dir or {DATA_DIR_VARIABLE}"
        )
    return read_idx_directory(directory, memory, name)


def _shipped(name: str) -> RawSet:
    source = f"scikit-learn's {name}"
    if name == "digits":
        rows = _digits()
        return RawSet(
            name, source, rows[:, :-1], rows[:, -1].astype(np.int64), default_names(0, DIGITS_SHAPE), DIGITS_SHAPE
        )
    from sklearn import datasets

    bunch = getattr(datasets, SHIPPED[name])()
    labels = np.asarray(bunch.target_names, str)[bunch.target]
    return RawSet(name, source, bunch.data, labels, tuple(map(str, bunch.feature_names)))


def _digits() -> FloatArray:
    """(1797, 65) pixels and class, from the file that scikit-learn reads: importing that takes longer than learning."""
    package = find_spec("sklearn")
    file = Path(package.origin or "").parent / "datasets/data/digits.csv.gz" if package is not None else None
    if file is not None and file.is_file():
        return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    return np.column_stack([pixels, classes])


def _fetched(name: str) -> RawSet:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one per failed try; the error below says it all
            bunch = fetch_openml(IMAGE_SETS[name], version=1, as_frame=False, n_retries=1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DataError(
            f"{name} could not be fetched from OpenML ({error}); give the directory of its IDX files "
            f"(train-images-idx3-ubyte.gz and so on) with --data-dir or {DATA_DIR_VARIABLE}"
        ) from error
    features, labels = np.asarray(bunch.data).astype(np.uint8), np.asarray(bunch.target).astype(np.uint8)
    train, test = (features[:N_TRAIN], labels[:N_TRAIN]), (features[N_TRAIN:], labels[N_TRAIN:])
    return RawSet(name, f"OpenML's {IMAGE_SETS[name]}", *train, default_names(0, IMAGE_SHAPE), IMAGE_SHAPE, *test)
