"""The model: an input encoder, a circuit, and one set of weights per class on it. It holds no training state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.backend import Backend, NumpyBackend, Precision
from lcml.circuit import Circuit
from lcml.encoder import Encoder, encoded
from lcml.errors import CircuitError
from lcml.flows import flows, literal_rows
from lcml.plan import FlowPlan, compile_plan
from lcml.rows import Matrix

Link = Literal["sigmoid", "softmax"]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogisticCircuit:
    """A classifier: logits g_k(x) = bias_k + sum over elements and literals of weight_k * flow(encoder(x)).

    element_weights (n_sets, n_elements); literal_weights (n_sets, 2 n_variables), the literals X_0.. before not X_0..,
    or None; bias (n_sets,): float64. There is one weight set for two classes under the sigmoid, one per class
    otherwise. `link` makes probabilities: the sigmoid of each logit, normalised over more than two classes
    (one-vs-rest), or the softmax. Raises CircuitError where the shapes do not fit together.
    """

    circuit: Circuit
    encoder: Encoder
    classes: tuple[int, ...] | tuple[str, ...]
    element_weights: FloatArray
    literal_weights: FloatArray | None
    bias: FloatArray
    link: Link = "sigmoid"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_sets = n_weight_sets(len(self.classes), self.link)
        expected = {
            "element_weights": (n_sets, self.circuit.n_elements),
            "literal_weights": (n_sets, self.circuit.n_literals),
            "bias": (n_sets,),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is None and name == "literal_weights":
                continue
            array = np.array(value, dtype=np.float64)
            if array.shape != shape:
                raise CircuitError(f"model: expected {name} of shape {shape}, found {array.shape}")
            if not np.all(np.isfinite(array)):
                raise CircuitError(f"model: {name} holds NaN or infinity")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.encoder.n_features != self.circuit.n_variables:
            raise CircuitError(
                f"model: the encoder has {self.encoder.n_features} features, "
                f"the circuit {self.circuit.n_variables} variables"
            )

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process needs: the fields, not the compiled plans."""
        return {name: value for name, value in self.__dict__.items() if name != "_plans"}

    @property
    def n_parameters(self) -> int:
        """Every weight of every set, the literals' and the bias included."""
        literals = 0 if self.literal_weights is None else self.literal_weights.size
        return int(self.element_weights.size + literals + self.bias.size)

    @cached_property
    def weights(self) -> FloatArray:
        """(n_sets, 2 n_variables + n_elements) weights in the order of `lcml.flows.flows`."""
        literals = self.literal_weights
        if literals is None:
            literals = np.zeros((len(self.bias), self.circuit.n_literals))
        return np.concatenate([literals, self.element_weights], axis=1)

    def logits(self, x: Matrix, backend: Backend | None = None, precision: Precision = "float32") -> FloatArray:
        """(n_examples, n_sets) logits of raw examples (n_examples, n_features), an array or rows in a file.

        Raises DataError for a wrong width, NaN or infinity, ContradictionError where Pr(root) = 0.
        """
        backend = backend or NumpyBackend()
        plan = self._plan(backend)
        dtype = np.dtype(precision)
        weights = backend.asarray(self.weights, dtype=dtype)
        examples = encoded(self.encoder, x)
        result = np.empty((len(examples), len(self.bias)))
        for start in range(0, len(examples), backend.chunk_examples):
            chunk = backend.asarray(examples[start : start + backend.chunk_examples], dtype=dtype)
            result[start : start + len(chunk)] = backend.to_host(weights @ flows(plan, literal_rows(plan, chunk))).T
        return result + self.bias

    def predict_proba(
        self, x: ArrayLike, backend: Backend | None = None, precision: Precision = "float32"
    ) -> FloatArray:
        """(n_examples, n_classes) probabilities; rows sum to 1."""
        return probabilities(self.logits(x, backend, precision), self.link)

    def predict(self, x: ArrayLike, backend: Backend | None = None, precision: Precision = "float32") -> NDArray[Any]:
        """(n_examples,) the most probable class of every example."""
        return np.asarray(self.classes)[predicted_codes(self.logits(x, backend, precision))]

    def _plan(self, backend: Backend) -> FlowPlan:
        plans: dict[str, FlowPlan] = self.__dict__.setdefault("_plans", {})
        if backend.name not in plans:
            plans[backend.name] = compile_plan(self.circuit, backend)
        return plans[backend.name]


def n_weight_sets(n_classes: int, link: Link) -> int:
    """How many weight vectors a model of `n_classes` has."""
    return 1 if n_classes == 2 and link == "sigmoid" else n_classes


def predicted_codes(logits: FloatArray) -> NDArray[np.int64]:
    """(n_examples,) index of the most probable class for logits (n_examples, n_sets); a tie goes to the first class."""
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0).astype(np.int64)
    return np.asarray(np.argmax(logits, axis=1))


def probabilities(logits: FloatArray, link: Link) -> FloatArray:
    """(n_examples, n_classes) probabilities of logits (n_examples, n_sets); rows sum to 1.

    One set: the sigmoid s of the logit as (1 - s, s). More sets, sigmoid: each class's sigmoid divided by their sum.
    Softmax: exp(g_k) / sum exp(g).
    """
    if link == "softmax":
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
    log_sigmoid = -np.logaddexp(0, -logits)
    if logits.shape[1] == 1:
        positive = np.exp(log_sigmoid[:, 0])
        return np.stack([np.exp(-np.logaddexp(0, logits[:, 0])), positive], axis=1)
    return probabilities(log_sigmoid, "softmax")
