"""From a classifier's parameters and its data in memory to a learner, and what the next fit may begin with."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.circuits.views import View
from lcml.circuits.vtree import Vtree
from lcml.data import Examples
from lcml.data.stratify import set_aside
from lcml.errors import SettingsError
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import Encoder, encoded
from lcml.learning.folds import chosen_by_folds
from lcml.learning.learner import Learner
from lcml.learning.settings import LearnSettings
from lcml.learning.state import EncodedSet, FitState, RoundReport
from lcml.learning.table_learner import TableLearner
from lcml.runs.parameters import Parameters
from lcml.runs.preparation import (
    check_shape,
    choose_places,
    choose_vtree,
    encoded_shape,
    grows_trees,
    make_encoder,
    takes_columns,
    to_learn_from,
)
from lcml.runs.specs import parse_augment, parse_view
from lcml.runs.weighting import class_weights, joined_weights, merged

Places = Sequence[tuple[View, Vtree]]


@dataclass(frozen=True, eq=False)
class Given:
    """The data of a fit: examples under codes of `classes`, how much each counts, those that choose instead of some set
    aside, and the names of the features."""

    examples: Examples
    weights: FloatArray | None
    classes: NDArray[Any]
    choosing: Examples | None
    names: Sequence[str] | None


@dataclass(frozen=True, eq=False)
class Warm:
    """What the next fit may begin with: what circuits read, their structure and weights, and the classes."""

    encoder: Encoder
    places: Places
    state: FitState
    classes: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Begun:
    """A learner, and what it was made of. left_out: what should be said of columns; training: the raw examples;
    everything: makes those of a refit."""

    learner: Learner | TableLearner
    settings: LearnSettings
    encoder: Encoder
    left_out: Sequence[str]
    training: Examples
    places: Places
    everything: Callable[[], EncodedSet] | None

    def reports(self) -> Iterator[RoundReport]:
        """The rounds, the penalties and, on everything, the refit."""
        yield from self.learner.grow()
        yield from self.learner.refine()
        if self.everything is not None:
            yield from self.learner.refit(self.everything())

    def warm(self, classes: NDArray[Any]) -> Warm:
        assert self.learner.state is not None
        return Warm(self.encoder, self.places, self.learner.state, classes)


def begin(chosen: Parameters, given: Given, before: Warm | None, should_stop: Callable[[], bool]) -> Begun:
    """Encode the data, set some aside, and make the learner.

    Raises SettingsError and DataError for parameters that do not go together or with the data.
    """
    settings, valid_fraction = chosen.learning(), chosen.valid_fraction if given.choosing is None else 0
    examples, weights, classes = given.examples, given.weights, given.classes
    shape = check_shape(chosen.image_shape, examples.features.shape[1], "X")
    of_table = takes_columns(chosen.encoder, examples.features, shape, chosen.channels)
    with_trees = grows_trees(settings.structure, of_table, chosen.vtree, chosen.view)
    if chosen.warm_start and with_trees:
        raise SettingsError(
            "warm_start: trees are chosen all together, by examples that trained none of them: there is nothing to "
            "go on from; leave it out, or choose structure='splits'"
        )
    if chosen.augment is None and (valid_fraction == 0 or not with_trees):  # weights are repeated examples
        examples, weights = merged(examples, weights)
    codes = examples.labels
    in_folds = with_trees and chosen_by_folds(len(codes), len(classes)) and given.choosing is None
    rest, aside = set_aside(codes, 0 if in_folds else valid_fraction, settings.seed)
    raw = examples.select(rest)
    of_rest = None if weights is None else weights[rest]
    encoder, left_out = make_encoder(
        chosen.encoder,
        raw.features,
        chosen.divisor,
        shape,
        chosen.channels,
        given.names,
        dict(chosen.columns or {}),
        of_rest,
    )
    if before is not None and chosen.warm_start:
        if before.encoder.n_features != encoder.n_features or not np.array_equal(before.classes, classes):
            raise SettingsError("warm_start: other features or classes than those of the last fit; fit a clone")
        encoder = before.encoder
    backend = get_backend(chosen.backend)
    by_class = class_weights(chosen.class_weight, classes, codes, weights)
    if by_class is not None:
        weights = by_class[codes] * (1 if weights is None else weights)
        of_rest = weights[rest]
    augmentation = None if chosen.augment is None else parse_augment(chosen.augment)

    def training(rows: NDArray[np.intp]) -> EncodedSet:
        of_rows = None if weights is None else weights[rows]
        return to_learn_from(examples.select(rows), encoder, augmentation, shape, settings, backend, of_rows)

    choosing = given.choosing or examples.select(aside)
    choosing_weights = None if weights is None or given.choosing is not None else weights[aside]
    if by_class is not None and given.choosing is not None:
        choosing_weights = by_class[given.choosing.labels]
    if isinstance(encoder, ColumnsEncoder) and with_trees:
        sets = [raw] if aside is rest and given.choosing is None else [raw, choosing]
        column_codes = np.concatenate([encoder.codes(part.features) for part in sets])
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
        )
        return Begun(of_table_learner, settings, encoder, left_out, raw, (), None)
    train = training(rest)
    valid = EncodedSet(encoded(encoder, choosing.features), choosing.labels, choosing_weights)
    seen = encoded_shape(encoder, shape)
    whole = partial(choose_vtree, chosen.vtree, seen, train, seed=settings.seed, blocks=encoder.blocks)
    views = [parse_view(text) for text in chosen.view or ("whole",)]
    warm = before if chosen.warm_start else None
    places = choose_places(views, encoder, shape, whole) if warm is None else warm.places
    learner = Learner(
        places,
        train,
        valid,
        len(classes),
        settings,
        backend,
        warm=None if warm is None else warm.state,
        should_stop=should_stop,
    )
    everything = partial(training, np.arange(len(codes))) if settings.refit and len(rest) < len(codes) else None
    return Begun(learner, settings, encoder, left_out, raw, places, everything)
