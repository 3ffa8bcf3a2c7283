"""From the options of a training run to everything it needs in memory; what cannot work is found out here."""

import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import numpy as np

from lcml import vtree as vtrees
from lcml.backend import Backend, get_backend
from lcml.checkpoint import Checkpoint
from lcml.config import TrainConfig, VtreeKind
from lcml.data import DataSplits, Examples, load_splits
from lcml.encoder import Encoder, encoded, fit_encoder
from lcml.errors import DataError, OutputError
from lcml.learner import EncodedSet
from lcml.views import IdentityView
from lcml.vtree import Vtree

_MOST_FOR_INFORMATION = 512
"""Variables up to which a table's automatic vtree comes from mutual information: its cost grows with the square."""

_EXAMPLES_FOR_INFORMATION = 16384
"""Examples that tell mutual information well enough: its standard error is then below 0.01."""

_MIXED_ROWS = 32
"""Neighbours that stay together when examples are mixed: one reading of a disk gets them all."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a training needs. checkpoint: where it goes on from, or its beginning; started: of the monotonic clock."""

    config: TrainConfig
    splits: DataSplits
    encoder: Encoder
    train: EncodedSet
    valid: EncodedSet
    backend: Backend
    checkpoint: Checkpoint
    checkpoint_path: Path
    started: float


def prepare(config: TrainConfig, resumed: Checkpoint | None = None, checkpoint_path: Path | None = None) -> Prepared:
    """Load and encode the data and choose the vtree; a checkpoint resumed (from `checkpoint_path`) brings its own.

    Raises OutputError where the model or the checkpoint could not be written, DataError for data that cannot be learned
    from or that are not those of the checkpoint, and SettingsError, FormatError, MissingDependencyError.
    """
    started = monotonic()
    if checkpoint_path is None:
        name = f"{config.model_path.stem}-{secrets.token_hex(4)}"
        checkpoint_path = config.checkpoint_directory / f"{name}.checkpoint"
    check_writable(config.model_path)
    check_writable(checkpoint_path)
    backend = get_backend(config.backend)
    splits = load_splits(
        config.data,
        target=config.target,
        data_dir=config.data_dir,
        valid_fraction=config.valid_fraction,
        test_fraction=config.test_fraction,
        train_fraction=config.train_fraction,
        seed=config.learn.seed,
        memory_budget=None if config.learn.memory_budget is None else config.learn.memory_budget * 2**20,
    )
    shared = splits.image_shape is not None and config.encoder == "scale"
    encoder = fit_encoder(
        config.encoder, splits.train.features, config.divisor, shared=shared, feature_names=splits.feature_names
    )
    examples = mixed(splits.train, config.learn.seed) if config.learn.solver == "minibatch" else splits.train
    train, valid = (EncodedSet(encoded(encoder, part.features), part.labels) for part in (examples, splits.valid))
    if resumed is None:
        vtree = choose_vtree(
            config.vtree, splits.image_shape, train, offset=config.vtree_offset, seed=config.learn.seed
        )
        places = ((IdentityView(vtree.n_variables), vtree),)
        checkpoint = Checkpoint(config, splits.fingerprint, places, config.run_name or checkpoint_path.stem)
    elif resumed.fingerprint == splits.fingerprint:
        checkpoint = resumed
    else:
        raise DataError(
            f"{splits.source} is not what {checkpoint_path} was learning from: expected data with the fingerprint "
            f"{resumed.fingerprint[:12]}..., found {splits.fingerprint[:12]}...; restore the data or start a new run"
        )
    return Prepared(config, splits, encoder, train, valid, backend, checkpoint, checkpoint_path, started)


def choose_vtree(
    kind: VtreeKind,
    image_shape: tuple[int, int] | None,
    train: EncodedSet,
    *,
    offset: tuple[int, int] = (0, 0),
    seed: int = 0,
) -> Vtree:
    """The vtree of that kind for encoded training examples; mutual information is that given the class, over a sample
    of many examples.

    Raises DataError for a grid, or an offset, where the data are no images.
    """
    n_variables = train.values.shape[1]
    if image_shape is None and (kind == "grid" or offset != (0, 0)):
        raise DataError(
            "the vtree grid and vtree_offset are for images, but these data have no image shape; choose another vtree"
        )
    if kind == "auto":
        few = n_variables <= _MOST_FOR_INFORMATION
        kind = "grid" if image_shape else "mutual-information" if few else "balanced"
    if kind == "grid":
        assert image_shape is not None
        return vtrees.grid(*image_shape, offset=offset)
    if kind == "mutual-information":
        n_examples = len(train.labels)
        n_read = min(n_examples, _EXAMPLES_FOR_INFORMATION)
        rows = np.sort(np.random.default_rng(seed).choice(n_examples, n_read, replace=False))
        return vtrees.from_mutual_information(train.values[rows], train.labels[rows])
    if kind == "random":
        return vtrees.random(n_variables, seed)
    return vtrees.balanced(n_variables) if kind == "balanced" else vtrees.right_linear(n_variables)


def mixed(examples: Examples, seed: int) -> Examples:
    """The examples in a random order of short runs: a solver that takes a chunk at a time must not meet one class at a
    time, in whatever order a file has them."""
    starts = np.arange(0, len(examples), _MIXED_ROWS)
    order = (np.random.default_rng(seed).permutation(starts)[:, None] + np.arange(_MIXED_ROWS)).ravel()
    return examples.select(order[order < len(examples)])


def check_writable(path: Path) -> None:
    """OutputError where a file could not be put at `path`: tried out in the nearest directory that is there."""
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {path}: expected a regular file or nothing there; choose another place")
    directory = Path(os.path.realpath(path)).parent
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise OutputError(f"cannot write {path}: {directory}: {error.strerror}; choose another place") from error
