"""Logistic circuits as a scikit-learn classifier, for pipelines, cross-validation and searches."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from lcml import __version__
from lcml.arrays import FloatArray
from lcml.backend import BackendName, FeaturePrecision, get_backend
from lcml.circuits.vtree import Vtree
from lcml.data import Examples
from lcml.data.stratify import apportion, draw
from lcml.errors import DataError, SettingsError
from lcml.inputs.encoders import EncoderKind
from lcml.learning.learner import Learner
from lcml.learning.scoring import Criterion
from lcml.learning.settings import LearnSettings, Metric, SolverName
from lcml.learning.state import EncodedSet
from lcml.model.head import HEADS, Link, predicted_codes
from lcml.model.model import LogisticCircuit
from lcml.runs.config import VtreeKind
from lcml.runs.preparation import check_shape, choose_places, choose_vtree, distorted, encoded_shape, make_encoder
from lcml.runs.specs import Shape, parse_augment, parse_view

_DEFAULT = LearnSettings()
_VALID_FRACTION = 0.1
_SETTINGS = tuple(field.name for field in dataclasses.fields(LearnSettings))


class LogisticCircuitClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns a logistic circuit from dense numeric features (n_examples, n_features) and labels (n_examples,).

    encoder, divisor: as `lcml.inputs.encoders.fit_encoder` takes them; vtree: a kind, or a `Vtree` over the features;
    image_shape: (height, width), or (channels, height, width), where the features are the pixels of an image, row by
    row, or with height 1 a sequence; channels, view, augment: as `lcml train` takes them, see `lcml.runs.specs`;
    valid_fraction: share of each class set aside to choose the model by (0: the training examples choose); backend; all
    others: `LearnSettings`.

    After fit: classes_, n_features_in_, feature_names_in_ (for a data frame), and `model_`, a `LogisticCircuit` over
    the classes as whole numbers or text. An example of weight 2 counts as one that is there twice, in the vtree, in
    fitting, in choosing splits (and `minimum_support`) and in validation; one of weight 0 is left out. Only what is set
    aside for validation is drawn without weights: with valid_fraction=0, they give the model of repeated examples.
    """

    def __init__(
        self,
        *,
        encoder: EncoderKind = "scale",
        divisor: float | None = None,
        vtree: VtreeKind | Vtree = "auto",
        image_shape: tuple[int, ...] | None = None,
        channels: Sequence[str] = (),
        augment: str | None = None,
        view: Sequence[str] = (),
        valid_fraction: float = _VALID_FRACTION,
        backend: BackendName = "auto",
        link: Link = _DEFAULT.link,
        literal_weights: bool = _DEFAULT.literal_weights,
        criterion: Criterion = _DEFAULT.criterion,
        depth: int = _DEFAULT.depth,
        growth: float = _DEFAULT.growth,
        minimum_support: float = _DEFAULT.minimum_support,
        score_examples: int = _DEFAULT.score_examples,
        rounds: int = _DEFAULT.rounds,
        max_elements: int | None = _DEFAULT.max_elements,
        max_parameters: int | None = _DEFAULT.max_parameters,
        time_limit: float | None = _DEFAULT.time_limit,
        metric: Metric = _DEFAULT.metric,
        patience: int = _DEFAULT.patience,
        l2: float = _DEFAULT.l2,
        l2_path: tuple[float, ...] = _DEFAULT.l2_path,
        refit: bool = _DEFAULT.refit,
        solver: SolverName = _DEFAULT.solver,
        round_iterations: int = _DEFAULT.round_iterations,
        final_iterations: int = _DEFAULT.final_iterations,
        tolerance: float = _DEFAULT.tolerance,
        precision: FeaturePrecision = _DEFAULT.precision,
        memory_budget: int | None = _DEFAULT.memory_budget,
        seed: int = _DEFAULT.seed,
    ) -> None:
        self.encoder = encoder
        self.divisor = divisor
        self.vtree = vtree
        self.image_shape = image_shape
        self.channels = channels
        self.augment = augment
        self.view = view
        self.valid_fraction = valid_fraction
        self.backend = backend
        self.link = link
        self.literal_weights = literal_weights
        self.criterion = criterion
        self.depth = depth
        self.growth = growth
        self.minimum_support = minimum_support
        self.score_examples = score_examples
        self.rounds = rounds
        self.max_elements = max_elements
        self.max_parameters = max_parameters
        self.time_limit = time_limit
        self.metric = metric
        self.patience = patience
        self.l2 = l2
        self.l2_path = l2_path
        self.refit = refit
        self.solver = solver
        self.round_iterations = round_iterations
        self.final_iterations = final_iterations
        self.tolerance = tolerance
        self.precision = precision
        self.memory_budget = memory_budget
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn. Raises DataError or SettingsError, both ValueErrors, and ValueError as scikit-learn's checks do."""
        features, labels = validate_data(self, X, y, dtype="numeric")
        check_classification_targets(labels)
        weights = _example_weights(sample_weight, len(labels))
        kept = slice(None) if weights is None else weights > 0
        features, labels = features[kept], labels[kept]
        weights = None if weights is None else weights[kept]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        codes = codes.astype(np.int64)
        if len(self.classes_) < 2:
            raise DataError("the labels are all of one class; give examples of at least two classes")
        self.model_ = self._learn(features, codes, weights)
        return self

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
        if "model_" in state:  # without what it compiled for a backend, which belongs to this process
            state = {**state, "model_": dataclasses.replace(state["model_"])}
        return state

    def _logits(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype="numeric")
        return self.model_.logits(features, get_backend(self.backend), "float64")

    def _learn(self, features: NDArray[Any], codes: NDArray[np.int64], weights: FloatArray | None) -> LogisticCircuit:
        settings = LearnSettings(**{name: getattr(self, name) for name in _SETTINGS})
        rest, aside = self._set_aside(codes)
        shape = check_shape(self.image_shape, features.shape[1], "X")
        names = getattr(self, "feature_names_in_", None)
        encoder = make_encoder(self.encoder, features[rest], self.divisor, shape, self.channels, names)
        backend = get_backend(self.backend)

        def to_learn_from(rows: NDArray[np.intp]) -> EncodedSet:
            of_rows = None if weights is None else weights[rows]
            if self.augment is None:
                return EncodedSet(encoder.encode(features[rows]), codes[rows], of_rows)
            augmentation, examples = parse_augment(self.augment), Examples(features[rows], codes[rows])
            budget = backend.memory_budget() if self.memory_budget is None else self.memory_budget * 2**20
            train = distorted(encoder, examples, shape, augmentation, self.seed, budget)
            of_rows = None if of_rows is None else np.tile(of_rows, augmentation.copies + 1)
            return dataclasses.replace(train, weights=of_rows)

        valid_weights = None if weights is None else weights[aside]
        train, valid = to_learn_from(rest), EncodedSet(encoder.encode(features[aside]), codes[aside], valid_weights)
        if rest is aside:  # no draw stands between weights and repeated examples: they are the same, to the bit
            train, valid = train.merged(), valid.merged()
        views = [parse_view(text) for text in self.view or ("whole",)]
        places = choose_places(views, encoder, shape, partial(self._choose_vtree, encoded_shape(encoder, shape), train))
        learner = Learner(places, train, valid, len(self.classes_), settings, backend)
        for _report in (*learner.grow(), *learner.refine()):
            pass
        if self.refit and len(rest) < len(codes):
            for _report in learner.refit(to_learn_from(np.arange(len(codes)))):
                pass
        parts, fitted = learner.best()
        return LogisticCircuit(
            encoder=encoder,
            parts=parts,
            classes=_model_classes(self.classes_),
            weights=fitted.weights,
            bias=fitted.bias,
            link=settings.link,
            provenance={
                "settings": settings.as_dict()
                | {"channels": list(self.channels), "augment": self.augment, "view": list(self.view)},
                "data": {"feature_names": [str(name) for name in getattr(self, "feature_names_in_", ())] or None},
                "versions": {"lcml": __version__, "scikit-learn": version("scikit-learn")},
            },
        )

    def _set_aside(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to fit by and rows to choose by; all rows for both where none can be spared."""
        if not 0 <= self.valid_fraction < 1:
            raise SettingsError(f"valid_fraction: expected at least 0 and below 1, found {self.valid_fraction}")
        every = np.arange(len(codes))
        if self.valid_fraction == 0:
            return every, every
        n_aside = apportion(np.bincount(codes), self.valid_fraction, least=1, leave=1)
        rest, aside = draw(codes, n_aside, np.random.default_rng(self.seed))
        return (rest, aside) if len(aside) else (every, every)

    def _choose_vtree(self, shape: Shape | None, train: EncodedSet) -> Vtree:
        n_variables = train.values.shape[1]
        if not isinstance(self.vtree, Vtree):
            return choose_vtree(self.vtree, shape, train, seed=self.seed)
        if self.vtree.n_variables != n_variables:
            raise SettingsError(
                f"vtree: expected one over the {n_variables} variables, found one over {self.vtree.n_variables}"
            )
        return self.vtree


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
        raise DataError(
            "sample_weight: all weights are zero; give at least one example of every class a positive weight"
        )
    return array


def _model_classes(classes: Sequence[Any] | NDArray[Any]) -> tuple[int, ...] | tuple[str, ...]:
    """The classes as a model keeps them: whole numbers where they are some, else text."""
    values = np.asarray(classes)
    if values.dtype.kind in "iu" or (values.dtype.kind == "f" and np.all(values == np.floor(values))):
        return tuple(int(value) for value in values)
    return tuple(str(value) for value in values)
