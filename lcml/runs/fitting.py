"""From a classifier's parameters and its data in memory to a learner, and what the next fit may begin with."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.backend.spread import Engine
from lcml.circuits.views import View
from lcml.circuits.vtree import Vtree
from lcml.data import Examples
from lcml.errors import SettingsError
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import EncodedRows, Encoder, coded, encoded
from lcml.inputs.rows import join
from lcml.learning.folds import chosen_by_folds
from lcml.learning.learner import Learner
from lcml.learning.settings import LearnSettings
from lcml.learning.state import EncodedSet, FitState, RoundReport
from lcml.learning.table_learner import TableLearner
from lcml.model.missing import check_policy
from lcml.runs.parameters import Parameters
from lcml.runs.places import choose_places, choose_vtree
from lcml.runs.preparation import check_shape, grows_trees, make_encoder, mixed_order, takes_columns, to_learn_from
from lcml.runs.specs import parse_augment, parse_patches, parse_view
from lcml.runs.weighting import class_weights, divided, joined_weights, merged

Places = Sequence[tuple[View, Vtree]]

_FORM = (
    *("encoder", "columns", "divisor", "image_shape", "channels", "pool", "patches"),
    *("view", "vtree", "depth", "link", "literal_weights"),
)
"""Parameters that decide which weights there are, and what they mean."""


@dataclass(frozen=True, eq=False)
class Given:
    """The data of a fit: examples under codes of `classes`, how much each counts, those that choose instead of some set
    aside, and the names of the features."""

    examples: Examples
    weights: FloatArray | None
    classes: NDArray[Any]
    choosing: Examples | None
    names: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Warm:
    """What the next fit may begin with: what circuits read, their structure and weights, and what these are for."""

    chosen: Parameters
    classes: NDArray[Any]
    names: tuple[str, ...] | None
    encoder: Encoder
    places: Places
    state: FitState
    n_features: int

    def check(self, chosen: Parameters, given: Given) -> None:
        """SettingsError where another fit needs other weights."""
        changed = [name for name in _FORM if getattr(chosen, name) != getattr(self.chosen, name)]
        if (given.examples.features.shape[1], given.names) != (self.n_features, self.names):
            changed.append("features")
        if not np.array_equal(given.classes, self.classes):
            changed.append("classes")
        if changed:
            raise SettingsError(f"warm_start: other {' and '.join(changed)} than in the last fit; fit a clone")


@dataclass(frozen=True, eq=False)
class Begun:
    """A learner, and what it was made of. left_out: what should be said of columns; everything: makes the examples of a
    refit."""

    chosen: Parameters
    given: Given
    learner: Learner | TableLearner
    settings: LearnSettings
    encoder: Encoder
    left_out: Sequence[str]
    places: Places
    everything: Callable[[], EncodedSet] | None

    def reports(self) -> Iterator[RoundReport]:
        """The rounds, the penalties and, on everything, the refit."""
        yield from self.learner.grow()
        yield from self.learner.refine()
        if self.everything is not None and isinstance(self.learner, Learner):
            yield from self.learner.refit(self.everything())

    def warm(self) -> Warm:
        assert self.learner.state is not None
        classes, names = self.given.classes, self.given.names
        n_features = self.given.examples.features.shape[1]
        return Warm(self.chosen, classes, names, self.encoder, self.places, self.learner.state, n_features)


def begin(
    chosen: Parameters, given: Given, before: Warm | None, should_stop: Callable[[], bool], engine: Engine | None = None
) -> Begun:
    """Encode the data, set some aside, and make the learner, which goes on from the fit before where there is one.
    engine: what holds the examples, where this process does not.

    Raises SettingsError and DataError for parameters that do not go together or with the data.
    """
    if before is not None:
        before.check(chosen, given)
    settings, valid_fraction = chosen.learning(), chosen.valid_fraction if given.choosing is None else 0
    examples, weights, classes = given.examples, given.weights, given.classes
    shape = check_shape(chosen.image_shape, examples.features.shape[1], "X")
    of_table = takes_columns(chosen.encoder, examples.features, shape, chosen.channels)
    with_trees = grows_trees(settings.structure, of_table, chosen.vtree, chosen.view, chosen.augment)
    if chosen.warm_start and with_trees:
        raise SettingsError(
            "warm_start: trees are chosen all together, by examples that trained none of them: there is nothing to "
            "go on from; leave it out, or choose structure='splits'"
        )
    repeats = None
    if chosen.augment is None and (valid_fraction == 0 or not with_trees):  # weights are repeated examples
        examples, weights, repeats = merged(examples, weights)
    in_folds = with_trees and chosen_by_folds(len(examples), len(classes)) and given.choosing is None
    fraction = 0 if in_folds else valid_fraction
    examples, weights, rest, aside = divided(examples, weights, repeats, fraction, settings.seed)
    codes = examples.labels
    raw = examples.select(rest)
    of_rest = None if weights is None else weights[rest]
    if before is None:
        of_encoder = chosen.divisor, shape, chosen.channels, chosen.pool, given.names
        columns, of_patches = dict(chosen.columns or {}), ([*map(parse_patches, chosen.patches)], settings.seed)
        kind, features = chosen.encoder, raw.features
        encoder, left_out = make_encoder(kind, features, *of_encoder, columns, of_rest, patches=of_patches)
    else:
        encoder, left_out = before.encoder, ()
    backend = get_backend(chosen.backend)
    by_class = class_weights(chosen.class_weight, classes, codes, weights)
    if by_class is not None:
        weights = by_class[codes] * (1 if weights is None else weights)
        of_rest = weights[rest]
    augmentation = None if chosen.augment is None else parse_augment(chosen.augment)

    def training(rows: NDArray[np.intp]) -> EncodedSet:
        rows = rows[mixed_order(len(rows), settings.seed)] if settings.solver == "minibatch" else rows
        of_rows = None if weights is None else weights[rows]
        return to_learn_from(examples.select(rows), encoder, augmentation, shape, settings, backend, of_rows)

    choosing = given.choosing or examples.select(aside)
    choosing_weights = None if weights is None or given.choosing is not None else weights[aside]
    if by_class is not None and given.choosing is not None:
        choosing_weights = by_class[given.choosing.labels]
    if isinstance(encoder, ColumnsEncoder) and with_trees:
        check_policy(chosen.missing, encoder, ())
        sets = [raw] if aside is rest and given.choosing is None else [raw, choosing]
        column_codes: FloatArray | EncodedRows
        if engine is None:
            column_codes = np.concatenate([encoder.codes(part.features) for part in sets])
        else:
            column_codes = coded(encoder, reduce(join, [part.features for part in sets]))
        every = np.concatenate([part.labels for part in sets])
        of_table_learner = TableLearner(
            encoder,
            EncodedSet(column_codes, every, joined_weights(of_rest, choosing_weights, len(every))),
            len(rest),
            len(classes),
            settings,
            backend,
            held_out=given.choosing is not None,
            should_stop=should_stop,
            engine=engine,
        )
        return Begun(chosen, given, of_table_learner, settings, encoder, left_out, (), None)
    train = training(rest)
    valid = EncodedSet(encoded(encoder, choosing.features), choosing.labels, choosing_weights)
    seen = encoder.output_shape or shape
    whole = partial(choose_vtree, chosen.vtree, seen, train, seed=settings.seed, blocks=encoder.blocks)
    views = [parse_view(text) for text in chosen.view or ("whole",)]
    places = choose_places(views, encoder, shape, whole) if before is None else before.places
    check_policy(chosen.missing, encoder, [view for view, _ in places])
    learner = Learner(
        places,
        train,
        valid,
        len(classes),
        settings,
        backend,
        warm=None if before is None else before.state,
        should_stop=should_stop,
        engine=engine,
    )
    everything = partial(training, np.arange(len(codes))) if settings.refit and len(rest) < len(codes) else None
    return Begun(chosen, given, learner, settings, encoder, left_out, places, everything)
