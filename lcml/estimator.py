"""Logistic circuits as a scikit-learn classifier, for pipelines, cross-validation and searches."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from lcml import __version__
from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.circuits.vtree import Vtree
from lcml.data import Examples
from lcml.data.labels import spelled
from lcml.data.stratify import apportion, draw
from lcml.errors import DataError, SettingsError
from lcml.explain.importance import feature_importances
from lcml.formats.model_file import model_from_parts, model_parts
from lcml.inputs.encoding import encoded
from lcml.inputs.rows import Matrix, SparseMatrix, all_rows, chunks
from lcml.learning.learner import Learner
from lcml.learning.state import EncodedSet, RoundReport
from lcml.model.head import HEADS, predicted_codes
from lcml.model.model import LogisticCircuit
from lcml.runs.config import VtreeKind
from lcml.runs.parameters import Parameters, described, takes
from lcml.runs.preparation import check_shape, choose_places, choose_vtree, encoded_shape, make_encoder, to_learn_from
from lcml.runs.records import RoundRecord
from lcml.runs.specs import Shape, parse_augment, parse_view
from lcml.tracking.autologging import follow

Callback: TypeAlias = Callable[[RoundRecord], object]

_DIGEST_BYTES = 16
"""Of a row: among 10^12 rows any two that differ share one with a chance of 10^-15. Rows themselves, of a sparse
matrix, would fill the memory."""

_IMPORTANCE_EXAMPLES = 128
"""Training examples kept to measure importances by: the standard error of a mean change is then below a tenth of the
changes' spread."""


class LogisticCircuitClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns a logistic circuit from numeric features (n_examples, n_features) and labels (n_examples,).

    The features may be a sparse matrix or array of scipy; they are made dense piece by piece. After fit:

        classes_, n_features_in_, feature_names_in_ (for a data frame)
        model_                  a `LogisticCircuit` over the classes as whole numbers or text
        history_                a `RoundRecord` per round of splits, penalty and refit
        best_round_             the rounds of splits of the model kept
        feature_importances_    (n_features_in_,), see `lcml.explain.importance`; 128 training examples are kept for it

    An example of weight 2 counts as one that is there twice, in the vtree, in fitting, in choosing splits (and
    `minimum_support`) and in validation; one of weight 0 is left out. Only what is set aside for validation is drawn
    without weights: with valid_fraction=0, they give the model of repeated examples.
    """

    @takes(Parameters)
    def __init__(self, **parameters: Any) -> None: ...

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[Any, ArrayLike] | Sequence[tuple[Any, ArrayLike]] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn.

        eval_set: features and labels, or a list of one such pair, that choose the model instead of examples set aside;
        they never train. callback: called with the `RoundRecord` of every round; learning ends where it returns true.

        Raises DataError or SettingsError, both ValueErrors, and ValueError as scikit-learn's checks do.
        """
        if follow(type(self)):
            return self.fit(X, y, sample_weight, eval_set=eval_set, callback=callback)
        chosen = Parameters(**self.get_params(deep=False))
        features, labels = validate_data(self, X, y, dtype="numeric", accept_sparse="csr")
        check_classification_targets(labels)
        weights = _example_weights(sample_weight, len(labels))
        kept = slice(None) if weights is None else weights > 0
        features, labels = features[kept], labels[kept]
        weights = None if weights is None else weights[kept]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        codes = codes.astype(np.int64)
        if len(self.classes_) < 2:
            raise DataError("the labels are all of one class; give examples of at least two classes")
        valid = None if eval_set is None else self._eval_examples(eval_set)
        self._learn(chosen, Examples(_rows(features), codes), weights, valid, callback)
        return self

    @property
    def feature_importances_(self) -> FloatArray:
        """(n_features_in_,) shares of 1, by `lcml.explain.importance.feature_importances`."""
        check_is_fitted(self)
        return feature_importances(self.model_, self._sample, get_backend(self.backend))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Logits: (n_examples, n_classes), or for two classes (n_examples,), above 0 for the second class."""
        logits = self._logits(X)
        if logits.shape[1] == 1:
            return logits[:, 0]
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n_examples,) the most probable class of every example."""
        codes = predicted_codes(self._logits(X))
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """(n_examples, n_classes) probabilities, columns in the order of classes_."""
        return HEADS[self.link].probabilities(self._logits(X))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "model_" in state:  # plain values: for readers that trust no types but those they know
            history = [dataclasses.asdict(record) for record in state["history_"]]
            state = {**state, "model_": model_parts(state["model_"]), "history_": history}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state.get("model_"), tuple):  # it was a LogisticCircuit once
            history = [RoundRecord(**values) for values in state["history_"]]
            state = {**state, "model_": model_from_parts(*state["model_"]), "history_": history}
        super().__setstate__(state)

    def _logits(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype="numeric", accept_sparse="csr")
        return self.model_.logits(_rows(features), get_backend(self.backend), "float64")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _eval_examples(self, eval_set: Any) -> Examples:
        """The examples that choose the model, under the classes of the training."""
        pairs = eval_set if isinstance(eval_set, list) else [eval_set]
        if len(pairs) != 1 or len(pairs[0]) != 2:
            raise DataError("eval_set: expected a pair of features and labels, or a list of one such pair")
        features, labels = validate_data(self, *pairs[0], reset=False, dtype="numeric", accept_sparse="csr")
        if len(unknown := np.setdiff1d(labels, self.classes_)):
            raise DataError(f"eval_set: the label {unknown[0]!r} is none of those in y; drop its examples")
        return Examples(_rows(features), np.searchsorted(self.classes_, labels))

    def _learn(
        self,
        chosen: Parameters,
        examples: Examples,
        weights: FloatArray | None,
        eval_examples: Examples | None,
        callback: Callback | None,
    ) -> None:
        settings, valid_fraction = chosen.learning(), chosen.valid_fraction if eval_examples is None else 0
        if valid_fraction == 0 and chosen.augment is None:  # no draw: weights are repeated examples
            examples, weights = _merged(examples, weights)
        codes = examples.labels
        rest, aside = _set_aside(codes, valid_fraction, settings.seed)
        shape = check_shape(chosen.image_shape, examples.features.shape[1], "X")
        names = getattr(self, "feature_names_in_", None)
        raw = examples.select(rest)
        encoder = make_encoder(chosen.encoder, raw.features, chosen.divisor, shape, chosen.channels, names)
        backend = get_backend(chosen.backend)

        augmentation = None if chosen.augment is None else parse_augment(chosen.augment)

        def training(rows: NDArray[np.intp]) -> EncodedSet:
            of_rows = None if weights is None else weights[rows]
            return to_learn_from(examples.select(rows), encoder, augmentation, shape, settings, backend, of_rows)

        train, choosing = training(rest), eval_examples or examples.select(aside)
        choosing_weights = None if weights is None or eval_examples is not None else weights[aside]
        valid = EncodedSet(encoded(encoder, choosing.features), choosing.labels, choosing_weights)
        views = [parse_view(text) for text in chosen.view or ("whole",)]
        whole = partial(_choose_vtree, chosen.vtree, encoded_shape(encoder, shape), train, settings.seed)
        places = choose_places(views, encoder, shape, whole)
        learner = Learner(places, train, valid, len(self.classes_), settings, backend)
        spared = settings.refit and len(rest) < len(codes)
        everything = partial(training, np.arange(len(codes))) if spared else None
        self.history_: list[RoundRecord] = []
        for report in _reports(learner, everything):
            self.history_.append(RoundRecord.of(report))
            if chosen.verbose:
                print(self.history_[-1].line())
            if callback is not None and callback(self.history_[-1]):
                break
        assert learner.state is not None
        self.best_round_ = learner.state.best.round
        sample = np.random.default_rng(settings.seed).permutation(len(raw))[:_IMPORTANCE_EXAMPLES]
        self._sample = raw.features[sample]
        parts, fitted = learner.best()
        self.model_ = LogisticCircuit(
            encoder=encoder,
            parts=parts,
            classes=_model_classes(self.classes_),
            weights=fitted.weights,
            bias=fitted.bias,
            link=settings.link,
            provenance={
                "settings": settings.as_dict()
                | {"channels": list(chosen.channels), "augment": chosen.augment, "view": list(chosen.view)},
                "data": {"feature_names": [str(name) for name in getattr(self, "feature_names_in_", ())] or None},
                "versions": {"lcml": __version__, "scikit-learn": version("scikit-learn")},
            },
        )


LogisticCircuitClassifier.__doc__ = f"{LogisticCircuitClassifier.__doc__}\n{described(Parameters)}"


def _reports(learner: Learner, everything: Callable[[], EncodedSet] | None) -> Iterator[RoundReport]:
    """The rounds, the penalties and, on `everything`, the refit."""
    yield from learner.grow()
    yield from learner.refine()
    if everything is not None:
        yield from learner.refit(everything())


def _rows(features: Any) -> Matrix:
    return all_rows(SparseMatrix(features)) if issparse(features) else features


def _merged(examples: Examples, weights: FloatArray | None) -> tuple[Examples, FloatArray | None]:
    """Equal examples of one class as a single one of the sum of their weights, where the first of them stood."""
    place: dict[tuple[bytes, int], int] = {}
    rows = (row for chunk in chunks(examples.features) for row in examples.features[chunk])
    digests = (blake2b(row.tobytes(), digest_size=_DIGEST_BYTES).digest() for row in rows)
    which = [place.setdefault(key, len(place)) for key in zip(digests, examples.labels.tolist(), strict=True)]
    if len(place) == len(which):
        return examples, weights
    first = np.unique(which, return_index=True)[1]
    return examples.select(first), np.bincount(which, weights).astype(np.float64)


def _set_aside(codes: NDArray[np.int64], fraction: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit by and rows to choose by; all rows for both where none can be spared."""
    every = np.arange(len(codes))
    if fraction == 0:
        return every, every
    n_aside = apportion(np.bincount(codes), fraction, least=1, leave=1)
    rest, aside = draw(codes, n_aside, np.random.default_rng(seed))
    return (rest, aside) if len(aside) else (every, every)


def _choose_vtree(vtree: VtreeKind | Vtree, shape: Shape | None, train: EncodedSet, seed: int) -> Vtree:
    n_variables = train.values.shape[1]
    if not isinstance(vtree, Vtree):
        return choose_vtree(vtree, shape, train, seed=seed)
    if vtree.n_variables != n_variables:
        raise SettingsError(f"vtree: expected one over the {n_variables} variables, found one over {vtree.n_variables}")
    return vtree


def _example_weights(weights: ArrayLike | None, n_examples: int) -> FloatArray | None:
    """The weights as (n_examples,) numbers of 0 or more."""
    if weights is None:
        return None
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_examples,) or not np.all(np.isfinite(array)) or np.any(array < 0):
        raise DataError(
            f"sample_weight: expected {n_examples} finite numbers of 0 or more, found an array of shape {array.shape}"
        )
    if not np.any(array > 0):
        message = "sample_weight: all weights are zero; give at least one example of every class a positive weight"
        raise DataError(message)
    return array


def _model_classes(classes: NDArray[Any]) -> tuple[int, ...] | tuple[str, ...]:
    """The classes as `lcml.data.labels` spells them wherever they come from; as text where that would merge two."""
    with suppress(DataError):  # for what a file could not hold
        values = spelled(classes, "y")
        if len(set(values)) == len(classes):
            return tuple(values)  # type: ignore[return-value]  # of one type
    return tuple(str(value) for value in classes)
