"""From the options of a training run to everything it needs in memory; what cannot work is found out here."""

import math
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend, get_backend
from lcml.backend.spread import Engine
from lcml.data import DataSplits, Examples, load_splits
from lcml.data.stratify import balanced_weights
from lcml.errors import DataError, FormatError, OutputError, SettingsError
from lcml.files import check_place
from lcml.inputs.augmentation import Augmentation, augmented
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import EncoderKind, fit_encoder
from lcml.inputs.encoding import EncodedRows, Encoder, coded, encoded
from lcml.inputs.knots import fit_columns
from lcml.inputs.patches import IMAGES as PATCH_IMAGES
from lcml.inputs.patches import Patches, PatchSpec, fit_patches
from lcml.inputs.rows import Matrix
from lcml.inputs.table import Table
from lcml.learning.folds import chosen_by_folds
from lcml.learning.settings import LearnSettings, Structure
from lcml.learning.state import EncodedSet
from lcml.model.head import HEADS
from lcml.model.missing import check_policy
from lcml.model.model import LogisticCircuit
from lcml.runs.checkpoint import Checkpoint
from lcml.runs.config import TrainConfig
from lcml.runs.places import choose_places, choose_vtree
from lcml.runs.specs import Shape, full_shape

_MIXED_ROWS = 32  # neighbours that stay together when examples are mixed: one reading of a disk gets them all

_COPIES_SHARE = 0.125
"""Distorted images are kept, encoded unless that makes channels of them, where they take up to this share of the memory
for features; else they are computed whenever they are read."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a training needs. image_shape: of the raw features; train, valid: raw for trees; checkpoint: where learning
    goes on from, or its beginning; started: of the monotonic clock; engine: what has examples, if not this process."""

    config: TrainConfig
    splits: DataSplits
    image_shape: Shape | None
    encoder: Encoder
    train: EncodedSet
    valid: EncodedSet
    backend: Backend
    checkpoint: Checkpoint
    checkpoint_path: Path
    started: float
    engine: Engine | None = None

    @property
    def with_trees(self) -> bool:
        config, of_columns = self.config, isinstance(self.encoder, ColumnsEncoder)
        return grows_trees(config.learn.structure, of_columns, config.vtree, config.view, config.augment)

    def everything(self) -> EncodedSet:
        """Training and validation examples together, to learn from."""
        examples, by_class = self.splits.train.joined(self.splits.valid), _by_class(self.config, self.splits)
        if isinstance(self.encoder, ColumnsEncoder) and self.with_trees:
            codes = coded(self.encoder, examples.features)
            return EncodedSet(codes, examples.labels, _weights(by_class, examples))
        return _training_set(examples, self.config, self.encoder, self.image_shape, self.backend, by_class)


def prepare(
    config: TrainConfig, resumed: Checkpoint | None = None, checkpoint_path: Path | None = None, engine: Any = None
) -> Prepared:
    """Load and encode the data and choose the vtree; a checkpoint resumed (from `checkpoint_path`) brings its own.
    engine: a `lcml.data.cluster.engine.ClusterEngine` that holds the examples, and reads Parquet parts.

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
        read=None if engine is None else engine.read,
        numbers=config.encoder not in ("auto", "columns") or (config.encoder == "auto" and bool(config.channels)),
    )
    shape = check_shape(config.shape or splits.image_shape, len(splits.feature_names), splits.source)
    features, names = splits.train.features, splits.feature_names
    of_table = takes_columns(config.encoder, features, shape, config.channels)
    with_trees = grows_trees(config.learn.structure, of_table, config.vtree, config.view, config.augment)
    if with_trees and config.prune_to is not None:
        raise SettingsError(
            "prune_to: for circuits that grow by splits; run `lcml compact` on the trees of a table, or choose "
            "--structure splits"
        )
    n_sets = HEADS[config.learn.link].n_sets(len(splits.classes))
    if config.prune_to is not None and config.prune_to < 2 * n_sets:
        raise SettingsError(f"prune_to: expected {2 * n_sets} or more, a bias and a weight for each of {n_sets} sets")
    if with_trees and chosen_by_folds(len(splits.train) + len(splits.valid), len(splits.classes)):
        features = splits.train.joined(splits.valid).features
    of_encoder = config.divisor, shape, config.channels, config.pool, names
    of_patches = config.patch_specs, config.learn.seed
    encoder, left_out = make_encoder(config.encoder, features, *of_encoder, config.column_kinds, patches=of_patches)
    splits = replace(splits, notes=(*splits.notes, *left_out))
    by_class = _by_class(config, splits)
    if with_trees:
        parts = splits.train, splits.valid
        train, valid = (EncodedSet(part.features, part.labels, _weights(by_class, part)) for part in parts)
    else:
        train = _training_set(splits.train, config, encoder, shape, backend, by_class)
        valid = _validation_set(for_solver(splits.valid, config.learn), encoder, by_class)
    if resumed is None and with_trees:
        checkpoint = Checkpoint(config, splits.fingerprint, (), config.run_name or checkpoint_path.stem)
    elif resumed is None:
        seen = encoder.output_shape or shape
        whole = partial(choose_vtree, config.vtree, seen, train, config.vtree_offset, config.learn.seed, encoder.blocks)
        places = choose_places(config.views, encoder, shape, whole)
        checkpoint = Checkpoint(config, splits.fingerprint, places, config.run_name or checkpoint_path.stem)
    elif not (resumed.places or with_trees):
        raise FormatError("holds no valid checkpoint (views: found none); start a new run", checkpoint_path)
    elif resumed.fingerprint == splits.fingerprint:
        checkpoint = resumed
    else:
        raise DataError(
            f"{splits.source} is not what {checkpoint_path} was learning from: expected data with the fingerprint "
            f"{resumed.fingerprint[:12]}..., found {splits.fingerprint[:12]}...; restore the data or start a new run"
        )
    check_policy(config.missing, encoder, [view for view, _ in checkpoint.places])
    return Prepared(config, splits, shape, encoder, train, valid, backend, checkpoint, checkpoint_path, started, engine)


def _by_class(config: TrainConfig, splits: DataSplits) -> FloatArray | None:
    """How much an example of each class counts; None where all count the same."""
    return None if config.class_weight is None else balanced_weights(splits.train.labels)


def _weights(by_class: FloatArray | None, examples: Examples) -> FloatArray | None:
    return None if by_class is None else by_class[examples.labels]


_OF_EXAMPLES = {"image_shape": str, "augment": str, "class_weight": str, "seed": int}
"""What a model's settings say of how training took its examples."""


def as_trained(
    model: LogisticCircuit, splits: DataSplits, backend: Backend
) -> tuple[Callable[[Examples], EncodedSet], EncodedSet]:
    """How training took examples of these data for the model, with distorted copies and weights of classes where it had
    some, and its validation examples."""
    settings = model.facts("settings")
    known = {name: settings[name] for name, kind in _OF_EXAMPLES.items() if isinstance(settings.get(name), kind)}
    config = TrainConfig().with_options(known)
    if "l2_squares" in model.facts("training"):
        raise SettingsError("this model is a mean of two fits (`average`), which a fit would undo; compact one without")
    shape = check_shape(config.shape or splits.image_shape, len(splits.feature_names), splits.source)
    by_class = _by_class(config, splits)

    def to_fit(examples: Examples) -> EncodedSet:
        return _training_set(examples, config, model.encoder, shape, backend, by_class)

    return to_fit, _validation_set(splits.valid, model.encoder, by_class)


def _validation_set(examples: Examples, encoder: Encoder, by_class: FloatArray | None) -> EncodedSet:
    return EncodedSet(encoded(encoder, examples.features), examples.labels, _weights(by_class, examples))


def _training_set(
    examples: Examples,
    config: TrainConfig,
    encoder: Encoder,
    shape: Shape | None,
    backend: Backend,
    by_class: FloatArray | None,
) -> EncodedSet:
    """Training examples as the solver takes them."""
    examples = for_solver(examples, config.learn)
    weights = _weights(by_class, examples)
    return to_learn_from(examples, encoder, config.augmentation, shape, config.learn, backend, weights)


def check_shape(shape: Sequence[int] | None, n_features: int, source: str) -> Shape | None:
    """The image shape, channels first. Raises SettingsError where it is not that of so many features."""
    if shape is not None and math.prod(shape) != n_features:
        raise SettingsError(
            f"image_shape: expected sizes whose product is {n_features}, the number of features of {source}, found "
            + "x".join(map(str, shape[shape[0] == 1 and len(shape) == 3 :]))
        )
    return None if shape is None else full_shape(shape)


def takes_columns(kind: EncoderKind, features: Matrix, shape: Shape | None, channels: Sequence[str]) -> bool:
    """Whether the encoder is that of a table's columns."""
    is_table = isinstance(features, Table) and shape is None and not channels
    return kind == "columns" or (kind == "auto" and is_table)


def grows_trees(
    structure: Structure, of_columns: bool, vtree: object, view: Sequence[str], augment: str | None
) -> bool:
    """Whether trees are grown, which need the encoder columns: where no splits, vtree or view are asked for.

    Raises SettingsError where trees are asked for beside a vtree or view, or with another encoder, and where they are
    to learn from distorted copies.
    """
    named = [name for name, given in (("vtree", vtree != "auto"), ("view", len(view) > 0)) if given]
    if structure == "trees" and (named or not of_columns):
        what = f"have no {named[0]}; leave it out" if named else "are for the encoder columns; give it a table"
        raise SettingsError(f"structure: trees {what}, or choose splits")
    with_trees = of_columns and structure != "splits" and not named
    if with_trees and augment is not None:
        raise SettingsError(
            "augment: only images and sequences can be distorted, and these data are a table; leave it out"
        )
    return with_trees


def make_encoder(
    kind: EncoderKind,
    features: Matrix,
    divisor: float | None,
    shape: Shape | None,
    channels: Sequence[str],
    pool: int = 1,
    feature_names: Sequence[str] | None = None,
    column_kinds: Mapping[str, str] | None = None,
    weights: FloatArray | None = None,
    patches: tuple[Sequence[PatchSpec], int] = ((), 0),
) -> tuple[Encoder, tuple[str, ...]]:
    """The encoder fitted on raw training features, with `channels`, averaged over blocks of `pool` pixels, and
    `patches`, drawn by a seed, on top of it where there are any, and what should be said of columns that it leaves out.

    Pixels of one raw channel share their range. `column_kinds` as `fit_columns` takes them; weights (n,): how often
    each example counts. Raises SettingsError for channels of what is no image, blocks of no channels, and column kinds
    of what is no table.
    """
    if pool != 1 and not channels:
        raise SettingsError("pool: averages channels, but none were asked for; give --channels or leave it out")
    specs, seed = patches
    if specs and not channels:
        raise SettingsError("patches: these come beside channels, but none were asked for; give --channels as well")
    if takes_columns(kind, features, shape, channels):
        if not isinstance(features, Table):
            raise SettingsError("the encoder columns is for tables and data frames; choose scale, boolean or divide")
        return fit_columns(features, column_kinds, weights)
    if column_kinds:
        raise SettingsError(
            "column: only the encoder columns, of a table, takes kinds of columns; leave one of them out"
        )
    kind = "scale" if kind == "auto" else kind
    shared = shape[0] if shape is not None and kind == "scale" else 0
    encoder = fit_encoder(kind, features, divisor, shared=shared, feature_names=feature_names, weights=weights)
    if not channels:
        return encoder, ()
    if shape is None:
        raise SettingsError(
            f"channels: {', '.join(channels)} are made of images, but these data have no image shape; give one "
            "(--image-shape 28x28, or 1x200 for a sequence) or leave --channels out"
        )
    drawn: tuple[Patches, ...] = ()
    if specs:
        n_read = min(len(features), PATCH_IMAGES)
        q = encoder.encode(features[np.arange(n_read) * len(features) // n_read]).reshape(-1, *shape)
        drawn = tuple(fit_patches(spec, q, seed) for spec in specs)
    return ChannelEncoder(encoder, shape, tuple(channels), pool, drawn), ()


def to_learn_from(
    examples: Examples,
    encoder: Encoder,
    augmentation: Augmentation | None,
    shape: Shape | None,
    settings: LearnSettings,
    backend: Backend,
    weights: FloatArray | None = None,
) -> EncodedSet:
    """Training examples as `encoded` has them; with an augmentation distorted copies too, made now where they take
    little of the memory, else whenever they are read. Raises SettingsError where such are no images."""
    if augmentation is None:
        return EncodedSet(encoded(encoder, examples.features), examples.labels, weights)
    if shape is None:
        raise SettingsError(
            "augment: only images and sequences can be distorted, but these data have no image shape; give one "
            "(--image-shape 28x28, or 1x200 for a sequence) or leave --augment out"
        )
    copies = augmented(examples.features, shape, augmentation, settings.seed)
    memory = backend.memory_budget() if settings.memory_budget is None else settings.memory_budget * 2**20
    itemsize = 4 if encoder.output_shape is None else copies.dtype.itemsize
    few = itemsize * math.prod(copies.shape) <= _COPIES_SHARE * memory
    values = encoded(encoder, copies[:]) if few else EncodedRows.of_images(encoder, copies)
    n_times = augmentation.copies + 1
    weights = None if weights is None else np.tile(weights, n_times)
    return EncodedSet(values, np.tile(examples.labels, n_times), weights, len(examples))


def for_solver(examples: Examples, settings: LearnSettings) -> Examples:
    """The examples as the solver takes them: mixed for mini-batches."""
    return mixed(examples, settings.seed) if settings.solver == "minibatch" else examples


def mixed(examples: Examples, seed: int) -> Examples:
    """The examples in a random order of short runs: a solver that takes a chunk at a time must not meet one class at a
    time, in whatever order a file has them."""
    return examples.select(mixed_order(len(examples), seed))


def mixed_order(n: int, seed: int) -> NDArray[np.intp]:
    """A random order of n rows, of which short runs stay together."""
    starts = np.arange(0, n, _MIXED_ROWS)
    order = (np.random.default_rng(seed).permutation(starts)[:, None] + np.arange(_MIXED_ROWS)).ravel()
    return order[order < n]


def check_writable(path: Path) -> None:
    """OutputError where a file could not be put at `path`: tried out in the nearest directory that is there."""
    check_place(path)
    directory = Path(os.path.realpath(path)).parent
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise OutputError(f"cannot write {path}: {directory}: {error.strerror}; choose another place") from error
