"""The model: an input encoder, circuits over views of it, and one set of weights per class. No training state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray, frozen
from lcml.backend import Array, Backend, Precision, get_backend
from lcml.circuits.circuit import Circuit
from lcml.circuits.parts import Part, needed
from lcml.circuits.views import IdentityView, cells_of
from lcml.errors import CircuitError
from lcml.inputs.encoding import Encoder, encoded
from lcml.model.head import HEADS, THRESHOLD, Head, Link, predicted_codes
from lcml.model.missing import Missing, MissingPolicy, check_policy, fit_missing
from lcml.passes.feature_map import FeatureMap


@dataclass(frozen=True, eq=False)
class LogisticCircuit:
    """A classifier: logits g_k(x) = bias_k + sum over features of weight_k * feature(encoder(x)).

    The features are those of every part, cell by cell, see `lcml.circuits.parts.Part`: flows of literals and elements,
    pooled where the part's view has windows. weights (n_sets, n_features), bias (n_sets,): float64. There is one weight
    set for two classes under the sigmoid, one per class otherwise. `link` makes probabilities: the sigmoid of each
    logit, normalised over more than two classes (one-vs-rest), or the softmax. Of two classes the second is predicted
    where its probability is above `threshold`. `missing`: how examples with missing inputs are predicted, None where
    they are refused. carries (n_features,): which features carry weights, None for all; the weights of the others are
    0 and no parameters. Raises CircuitError where the shapes do not fit together.
    """

    encoder: Encoder
    parts: tuple[Part, ...]
    classes: tuple[int, ...] | tuple[str, ...]
    weights: FloatArray
    bias: FloatArray
    link: Link = "sigmoid"
    provenance: Mapping[str, Any] = field(default_factory=dict)
    threshold: float = THRESHOLD
    missing: Missing | None = None
    carries: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if len(set(self.classes)) < max(2, len(self.classes)):
            raise CircuitError(f"model: expected two different classes or more, found {self.classes!r}")
        of_two = len(self.classes) == 2
        if not (
            isinstance(self.threshold, float) and (0 < self.threshold < 1 if of_two else self.threshold == THRESHOLD)
        ):
            expected_one = "a number above 0 and below 1" if of_two else f"{THRESHOLD} of {len(self.classes)} classes"
            raise CircuitError(f"model: expected a threshold, {expected_one}, found {self.threshold!r}")
        n_sets = self.head.n_sets(len(self.classes))
        expected = {"weights": (n_sets, sum(part.n_features for part in self.parts)), "bias": (n_sets,)}
        for name, shape in expected.items():
            array = frozen(getattr(self, name), np.float64)
            if array.shape != shape:
                raise CircuitError(f"model: expected {name} of shape {shape}, found {array.shape}")
            if not np.all(np.isfinite(array)):
                raise CircuitError(f"model: {name} holds NaN or infinity")
            object.__setattr__(self, name, array)
        if self.carries is not None:
            carries = frozen(self.carries, np.bool_)
            if carries.shape != self.weights.shape[1:] or np.any(self.weights[:, ~carries]):
                raise CircuitError("model: expected carries of a mark per feature, and weights of 0 where it is False")
            object.__setattr__(self, "carries", None if carries.all() else carries)
        for part in self.parts:
            if (n_made := self.encoder.n_outputs) != (n_read := part.view.n_inputs):
                raise CircuitError(f"model: the encoder makes {n_made} inputs, a view reads {n_read}")
        if self.missing is not None:
            check_policy(self.missing.policy, self.encoder, [part.view for part in self.parts])
            if (n_means := len(self.missing.means)) != self.encoder.n_outputs:
                raise CircuitError(f"model: the encoder makes {self.encoder.n_outputs} inputs, missing has {n_means}")
            if self.missing.distribution is not None and not self.missing.distribution.circuit.same_as(self.circuit):
                raise CircuitError("model: the distribution of missing inputs is over another circuit")

    @classmethod
    def flat(
        cls,
        circuit: Circuit,
        encoder: Encoder,
        classes: tuple[int, ...] | tuple[str, ...],
        element_weights: FloatArray,
        literal_weights: FloatArray | None,
        bias: FloatArray,
        link: Link = "sigmoid",
        provenance: Mapping[str, Any] | None = None,
    ) -> "LogisticCircuit":
        """The model of one circuit over the whole example, every element of which carries weights.

        element_weights (n_sets, n_elements); literal_weights (n_sets, 2 n_variables), the literals X_0.. before not
        X_0.., or None where literals carry none.
        """
        weighted = np.full(circuit.n_literals, literal_weights is not None), np.ones(circuit.n_elements, dtype=bool)
        part = Part(IdentityView(circuit.n_variables), circuit, np.concatenate(weighted))
        element_weights = np.asarray(element_weights, dtype=np.float64)
        weights = element_weights if literal_weights is None else np.concatenate([literal_weights, element_weights], 1)
        return cls(encoder, (part,), classes, weights, bias, link, {} if provenance is None else provenance)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process needs: the fields, not what was compiled."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def head(self) -> Head:
        """What makes probabilities of logits."""
        return HEADS[self.link]

    def facts(self, part: str) -> Mapping[str, Any]:
        """What the provenance says of `part`, "data" or "settings" and so on; empty where it says nothing."""
        found = self.provenance.get(part)
        return found if isinstance(found, dict) else {}

    @property
    def circuit(self) -> Circuit:
        """The circuit of a flat model; CircuitError for a model of several, or of windows."""
        if len(self.parts) != 1 or not isinstance(self.parts[0].view, IdentityView):
            raise CircuitError(
                f"this works on a model of one circuit over the whole example; this one has {len(self.parts)} parts "
                f"with {sum(part.view.n_cells for part in self.parts)} cells"
            )
        return self.parts[0].circuit

    @property
    def n_elements(self) -> int:
        """Elements of all circuits."""
        return sum(part.circuit.n_elements for part in self.parts)

    @property
    def n_or_gates(self) -> int:
        """Or gates of all circuits."""
        return sum(part.circuit.n_or_gates for part in self.parts)

    @cached_property
    def carried(self) -> NDArray[np.bool_]:
        """(n_features,) whether a feature carries weights."""
        return np.ones(self.weights.shape[1], dtype=bool) if self.carries is None else self.carries

    @property
    def n_carried(self) -> list[int]:
        """How many features of each part carry weights."""
        stops = np.cumsum([part.n_features for part in self.parts])
        return [int(np.count_nonzero(of_part)) for of_part in np.split(self.carried, stops[:-1])]

    @property
    def n_parameters(self) -> int:
        """Every weight of every set and cell that carries one, the literals' and the bias included."""
        return int((np.count_nonzero(self.carried) + 1) * self.bias.size)

    @cached_property
    def by_cell(self) -> "LogisticCircuit":
        """An equal model, all features of which carry weights: where some carry none, windows have parts for single
        cells, which compute what carries weights there, in the order of the features."""
        if self.carries is None:
            return self
        parts, first = [], 0
        for part in self.parts:
            for view in cells_of(part.view):
                size = len(part.flows) * view.n_cells
                weighted = np.zeros_like(part.weighted)
                weighted[part.flows] = self.carried[first : first + size].reshape(view.n_cells, -1).any(axis=0)
                parts.append(Part(view, part.circuit, weighted))
                first += size
        return replace(self, parts=needed(parts), weights=self.weights[:, self.carried], carries=None)

    @cached_property
    def flow_weights(self) -> tuple[FloatArray, ...]:
        """Per part (n_sets, n_cells, 2 n_variables + n_elements) weights of all flows, in the order of
        `lcml.passes.flows.flows`; 0 for flows that carry none."""
        bounds = np.cumsum([part.n_features for part in self.parts])[:-1]
        columns = np.split(self.weights, bounds, axis=1)
        return tuple(part.dense(of_part) for part, of_part in zip(self.parts, columns, strict=True))

    @property
    def flat_weights(self) -> FloatArray:
        """(n_sets, 2 n_variables + n_elements) of a flat model, in the order of `lcml.passes.flows.flows`, 0 for flows
        without weights."""
        assert self.circuit
        return self.flow_weights[0][:, 0, :]

    @property
    def element_weights(self) -> FloatArray:
        """(n_sets, n_elements) of a flat model, 0 for elements without weights."""
        return self.flat_weights[:, self.circuit.n_literals :]

    @property
    def literal_weights(self) -> FloatArray | None:
        """(n_sets, 2 n_variables) of a flat model, 0 for literals without weights; None where no literal has any."""
        n_literals = self.circuit.n_literals
        return self.flat_weights[:, :n_literals] if self.parts[0].weighted[:n_literals].any() else None

    def encode(self, x: Any) -> NDArray[np.floating]:
        """(n_examples, n_outputs) encoded raw examples, with the means of `missing` for what is. Raises as `logits`."""
        missing = self.missing
        return self.encoder.encode(x) if missing is None else missing.filled(self.encoder.encode(x, gaps=True))

    def logits(self, x: Any, backend: Backend | None = None, precision: Precision = "float32") -> FloatArray:
        """(n_examples, n_sets) logits of raw examples (n_examples, n_features), an array or rows in a file.

        NaN is a missing input, which `missing` says how to predict. DataError for a wrong width, infinity, and without
        `missing` NaN, ContradictionError where Pr(root) = 0, CircuitError for weights too large for that precision.
        """
        backend = backend or get_backend("numpy")
        dtype = np.dtype(precision)
        terms = self._compiled(backend, dtype)
        missing = self.missing
        inputs = encoded(self.encoder, x, gaps=missing is not None)
        size = backend.chunk_examples

        def chunk(first: int) -> FloatArray:
            given = inputs[first : first + size]
            values = given if missing is None else missing.filled(given)
            examples = backend.asarray(values, dtype=dtype)
            host: FloatArray = backend.to_host(sum((term(examples) for term in terms), start=0)).T
            if missing is None or not terms:
                return host
            return missing.with_expected(host, given, lambda f: f @ self.flat_weights.T)

        firsts = range(0, len(inputs), size)
        parts = list(backend.map(chunk, firsts) if len(firsts) > 1 else map(chunk, firsts))
        if not parts or not terms:
            return np.zeros((len(inputs), len(self.bias))) + self.bias
        return np.concatenate(parts).astype(np.float64) + self.bias

    def predict_proba(self, x: Any, backend: Backend | None = None, precision: Precision = "float32") -> FloatArray:
        """(n_examples, n_classes) probabilities; rows sum to 1."""
        return self.head.probabilities(self.logits(x, backend, precision))

    def predict(self, x: Any, backend: Backend | None = None, precision: Precision = "float32") -> NDArray[Any]:
        """(n_examples,) the most probable class of every example, of two as the threshold says."""
        return np.asarray(self.classes)[self.codes(self.logits(x, backend, precision))]

    def codes(self, logits: FloatArray) -> NDArray[np.int64]:
        """(n_examples,) the place among `classes` of the class predicted, for logits (n_examples, n_sets)."""
        return predicted_codes(logits, self.threshold)

    def with_missing(
        self, policy: MissingPolicy, x: Any, backend: Backend | None = None, weights: FloatArray | None = None
    ) -> "LogisticCircuit":
        """The model with another policy for missing inputs, fitted to raw training examples x (n_examples, n_features)
        without any, each as often as weights (n_examples,) say. Raises SettingsError for a policy that it cannot have,
        DataError for missing values in x."""
        return replace(self, missing=fit_missing(policy, self.encoder, self.parts, x, backend, weights))

    def _compiled(self, backend: Backend, dtype: np.dtype[Any]) -> list[Callable[[Array], Array]]:
        """Functions from encoded examples to what each part adds to the logits, (n_sets, n_examples); only features
        that some set weights are computed."""
        compiled: dict[tuple[str, str], list[Callable[[Array], Array]]] = self.__dict__.setdefault("_maps", {})
        key = backend.name, dtype.name
        if key not in compiled:
            with np.errstate(over="ignore"):
                most = np.abs(self.weights).sum(axis=1).max()
            if most > float(np.finfo(dtype).max):
                raise CircuitError(f"model: sums of weights are beyond {dtype}; scale them down")
            terms, first = [], 0
            for part in self.by_cell.parts:
                columns = np.arange(first, first + part.n_features).reshape(part.view.n_cells, -1)
                used = np.any(self.by_cell.weights[:, columns] != 0, axis=(0, 1))
                first += part.n_features
                if used.any() or not part.circuit.is_tautology:
                    feature_map = FeatureMap(part.view, part.circuit, part.flows[used], backend)
                    weights = backend.asarray(self.by_cell.weights[:, columns[:, used].ravel()], dtype=dtype)
                    terms.append(feature_map.weighted_by(weights))
            compiled[key] = terms
        return compiled[key]
