"""Logistic circuits as a scikit-learn classifier, for pipelines, cross-validation and searches."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from lcml import __version__
from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.backend.spread import Engine
from lcml.backend.threads import at_most
from lcml.data import Examples
from lcml.data.labels import spelled
from lcml.errors import DataError, MissingDependencyError, SettingsError
from lcml.explain.importance import feature_importances
from lcml.explain.names import known_names
from lcml.formats import load_model, save_model
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.rows import Matrix, SparseMatrix, all_rows
from lcml.inputs.table import from_frame, is_frame, is_gap
from lcml.learning.table_learner import TableLearner
from lcml.model.model import LogisticCircuit
from lcml.runs.config import NO_MINIBATCH
from lcml.runs.fitting import Given, Warm, begin
from lcml.runs.parameters import Parameters, described, most_threads, takes
from lcml.runs.plain import plain, rebuilt
from lcml.runs.records import RoundRecord
from lcml.runs.reference import with_reference
from lcml.runs.weighting import example_weights
from lcml.tracking.autologging import follow

Callback: TypeAlias = Callable[[RoundRecord], object]

_NO_LABELS = "no_validation"  # what scikit-learn's validate_data calls it

_IMPORTANCE_EXAMPLES = 128
"""Training examples kept to measure importances by: the standard error of a mean change is then below a tenth of the
changes' spread."""


class LogisticCircuitClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns a logistic circuit from features (n_examples, n_features) and labels (n_examples,).

    The features of a data frame (pandas, polars, pyarrow) may be numbers, truth values, dates, text, and gaps, as
    `lcml.inputs.columns` encodes them; an array holds finite numbers, as a sparse matrix or array of scipy does, which
    is made dense piece by piece. Those of dask stay on the workers of the `distributed.Client` made last. After fit:

        classes_, n_features_in_, feature_names_in_ (for a data frame)
        model_                  a `LogisticCircuit` over the classes as whole numbers or text
        history_                a `RoundRecord` per round of splits, penalty and refit
        best_round_             the rounds of splits of the model kept
        feature_importances_    (n_features_in_,), see `lcml.explain.importance`; 128 training examples are kept for it

    An example of weight 2 counts as one that is there twice, in the vtree, in fitting, in choosing splits (and
    `minimum_support`) and in validation; one of weight 0 is left out. Trees alone are chosen by examples that are drawn
    without the weights; all else is the model of repeated examples, up to 1 / valid_fraction of each: more of them are
    divided by their share. A copy begins anew, also with warm_start.
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
        if hasattr(X, "__dask_graph__"):
            return self._fit_on_cluster(X, y, sample_weight, eval_set, callback)
        features, labels = self._features(X, y, reset=True)
        return self._fit(features, labels, sample_weight, eval_set, callback, None)

    def _fit_on_cluster(self, X: Any, y: Any, sample_weight: Any, eval_set: Any, callback: Callback | None) -> Self:
        """As `fit`, a dask collection, whose partitions stay on the workers."""
        try:
            from lcml.data.cluster.engine import computed, current
        except ImportError as error:
            raise MissingDependencyError("dask[distributed]", "dask", "learning from dask collections") from error
        if eval_set is not None:
            raise DataError("eval_set: with dask collections leave it out; valid_fraction sets examples aside")
        if self.solver == "minibatch":
            raise SettingsError(f"solver: {NO_MINIBATCH}")
        with current() as engine:
            features = engine.collection(X)
            like = np.empty((1, features.shape[1])) if hasattr(X, "chunks") else X._meta
            validate_data(self, like, skip_check_array=True, reset=True)
            labels, weights = computed((y, sample_weight))
            labels = column_or_1d(labels, warn=True)
            check_consistent_length(features, labels)
            return self._fit(features, labels, weights, None, callback, engine)

    def _fit(
        self,
        features: Matrix,
        labels: NDArray[Any],
        sample_weight: Any,
        eval_set: Any,
        callback: Callback | None,
        engine: Engine | None,
    ) -> Self:
        _check_labels(labels, "y")
        chosen = Parameters(**self.get_params(deep=False))
        before: Warm | None = self.__dict__.get("_warm") if chosen.warm_start else None
        check_classification_targets(labels)
        weights = example_weights(sample_weight, len(labels))
        self.classes_ = np.unique(labels if weights is None else labels[weights > 0])
        codes = np.searchsorted(self.classes_, labels).astype(np.int64)
        examples = Examples(features, codes)
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            examples, weights = examples.select(kept), weights[kept]
        if len(self.classes_) < 2:
            raise DataError("the labels are all of one class; give examples of at least two classes")
        valid = None if eval_set is None else self._eval_examples(eval_set)
        with at_most(most_threads(chosen.n_jobs)):
            self._learn(chosen, examples, weights, valid, callback, before, engine)
        return self

    @property
    def feature_importances_(self) -> FloatArray:
        """(n_features_in_,) shares of 1, by `lcml.explain.importance.feature_importances`."""
        check_is_fitted(self)
        if not hasattr(self, "_sample"):
            raise AttributeError("a loaded classifier has no training examples to measure feature_importances_ by")
        return feature_importances(self.model_, self._sample, get_backend(self.backend))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Logits: (n_examples, n_classes), or for two classes (n_examples,), the log-odds of the second class."""
        logits = self._logits(X)
        if logits.shape[1] == 1:
            return logits[:, 0]
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n_examples,) the most probable class of every example, or of two as `threshold` says."""
        logits = self._logits(X)
        return np.asarray(self.classes_[self.model_.codes(logits)])

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """(n_examples, n_classes) probabilities, columns in the order of classes_."""
        logits = self._logits(X)
        return self.model_.head.probabilities(logits)

    def to_model(self) -> LogisticCircuit:
        """The fitted model, as `lcml.save_model`, `lcml.explain` and the other functions take it."""
        check_is_fitted(self)
        return dataclasses.replace(self.model_)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, which `load`, `lcml.load_model` and the commands read. Raises OutputError."""
        save_model(self.to_model(), path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A fitted classifier of a model file, which predicts as the one that was saved; history_ is empty, and there
        are no examples to measure feature_importances_ by. classes_ are as the file spells them: whole numbers or text.

        Raises FormatError or DataError, which name the file.
        """
        model = load_model(path)
        of_file = model.facts("settings")
        kept: dict[str, Any] = {}
        for name in of_file.keys() & cls().get_params().keys() - {"image_shape"}:
            kept[name] = tuple(of_file[name]) if isinstance(of_file[name], list) else of_file[name]
        found = cls(**kept)
        given = model.facts("data").get("feature_names")  # with those that the encoder leaves out
        names = given if isinstance(given, list) else known_names(model)
        found.model_, found.classes_, found.history_ = model, np.array(model.classes), []
        found.n_features_in_ = model.encoder.n_features if names is None else len(names)
        if names is not None:
            found.feature_names_in_ = np.array(names, object)
        return found

    def to_onnx(self, path: str | Path, **options: Any) -> Any:
        """Write the model as ONNX, verified; options and report: those of `lcml_export.export_model`.

        Raises MissingDependencyError without the extra export, and what `export_model` raises.
        """
        try:
            from lcml_export import export_model
        except ImportError as error:
            raise MissingDependencyError("onnx", "export", "export to ONNX") from error
        model = self.to_model()
        return export_model(model, path, **{"feature_names": known_names(model), **options})

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {name: value for name, value in super().__getstate__().items() if name != "_warm"}
        return plain(state) if "model_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(rebuilt(state) if isinstance(state.get("model_"), tuple) else state)  # or an older pickle

    def _logits(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        with at_most(most_threads(self.n_jobs)):
            features, _ = self._features(X, gaps=self.model_.missing is not None)
            return self.model_.logits(features, get_backend(self.backend), "float64")

    def _features(
        self, X: Any, y: Any = _NO_LABELS, *, reset: bool = False, gaps: bool = False
    ) -> tuple[Matrix, NDArray[Any]]:
        """The features, of a data frame a `Table`, and the labels, as scikit-learn checks them; gaps: NaN too."""
        if is_frame(X):
            validate_data(self, X, y, skip_check_array=True, reset=reset)
            table = from_frame(X)
            if not len(table):
                raise DataError("found 0 examples; give at least one")
            labels = np.zeros(0) if y is _NO_LABELS else column_or_1d(y, warn=True)
            if y is not _NO_LABELS:
                check_consistent_length(X, labels)
            return table, labels
        finite = "allow-nan" if gaps else True
        checked = validate_data(self, X, y, reset=reset, dtype="numeric", accept_sparse="csr", ensure_all_finite=finite)
        features, labels = (checked, np.zeros(0)) if y is _NO_LABELS else checked
        return all_rows(SparseMatrix(features)) if issparse(features) else features, labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _eval_examples(self, eval_set: Any) -> Examples:
        """The examples that choose the model, under the classes of the training."""
        pairs = eval_set if isinstance(eval_set, list) else [eval_set]
        if len(pairs) != 1 or len(pairs[0]) != 2:
            raise DataError("eval_set: expected a pair of features and labels, or a list of one such pair")
        features, labels = self._features(*pairs[0])
        _check_labels(labels, "eval_set")
        if len(unknown := np.setdiff1d(labels, self.classes_)):
            raise DataError(f"eval_set: the label {unknown[0]!r} is none of those in y; drop its examples")
        return Examples(features, np.searchsorted(self.classes_, labels))

    def _learn(
        self,
        chosen: Parameters,
        examples: Examples,
        weights: FloatArray | None,
        eval_examples: Examples | None,
        callback: Callback | None,
        before: Warm | None,
        engine: Engine | None,
    ) -> None:
        stops: list[bool] = []
        names = tuple(getattr(self, "feature_names_in_", ())) or None
        of_data = Given(examples, weights, self.classes_, eval_examples, names)
        begun = begin(chosen, of_data, before, should_stop=lambda: bool(stops), engine=engine)
        learner = begun.learner
        if chosen.verbose:
            print(*begun.left_out, sep="\n", end="\n" * bool(begun.left_out))
        self.history_: list[RoundRecord] = []
        for report in begun.reports():
            self.history_.append(RoundRecord.of(report))
            if chosen.verbose:
                print(self.history_[-1].line())
            if callback is not None and callback(self.history_[-1]):
                stops.append(True)
        assert learner.state is not None
        self.best_round_ = learner.state.best.round
        self._warm = begun.warm() if chosen.warm_start else None
        raw = examples.features  # every row as often as it was given
        sample = np.random.default_rng(begun.settings.seed).permutation(len(raw))[:_IMPORTANCE_EXAMPLES]
        self._sample = raw[sample]
        parts, fitted = learner.best()
        self.model_ = LogisticCircuit(
            encoder=learner.encoder if isinstance(learner, TableLearner) else begun.encoder,
            parts=parts,
            classes=_model_classes(self.classes_),
            weights=fitted.weights,
            bias=fitted.bias,
            link=learner.link,
            threshold=learner.threshold,
            provenance={
                "settings": begun.settings.as_dict()
                | {
                    "channels": list(chosen.channels),
                    "pool": chosen.pool,
                    "patches": list(chosen.patches),
                    "augment": chosen.augment,
                    "view": list(chosen.view),
                },
                "data": {"feature_names": [str(name) for name in getattr(self, "feature_names_in_", ())] or None},
                "versions": {"lcml": __version__, "scikit-learn": version("scikit-learn")},
            },
        )
        backend = get_backend(chosen.backend)
        self.model_ = self.model_.with_missing(chosen.missing, raw, backend, weights)
        if isinstance(begun.encoder, ColumnsEncoder):
            self.model_ = with_reference(self.model_, raw, backend)


LogisticCircuitClassifier.__doc__ = f"{LogisticCircuitClassifier.__doc__}\n{described(Parameters)}"


def _model_classes(classes: NDArray[Any]) -> tuple[int, ...] | tuple[str, ...]:
    """The classes as `lcml.data.labels` spells them wherever they come from; as text where that would merge two."""
    with suppress(DataError):  # for what a file could not hold
        values = spelled(classes, "y")
        if len(set(values)) == len(classes):
            return tuple(values)  # type: ignore[return-value]  # of one type
    return tuple(str(value) for value in classes)


def _check_labels(labels: NDArray[Any], name: str) -> None:
    """DataError where one is missing."""
    known = [isinstance(label, str) or not is_gap(label) for label in labels] if labels.dtype.kind in "fO" else []
    if gaps := np.flatnonzero(~np.array(known, bool)).tolist():
        more = f", nor have {len(gaps) - 1} others" if len(gaps) > 1 else ""
        raise DataError(f"{name}: example {gaps[0]} has no label{more}; drop what has none")
