"""What is predicted for an example with missing inputs by a model whose training had none.

    refuse     nothing: such an example is an error (of a table's column, the encoder's own stand-in)
    prior      the logits under independent variables: each missing one is true with its mean probability in training
    expected   the expected logits E[g(x) | what is known] under a distribution over the model's own circuit

Logits are linear in flows, and flows multilinear in the variables of a view without a square root, so `prior` replaces
missing variables by their means and is exact. For `expected` see `lcml.model.distribution`.
Source: Khosravi, Choi, Liang, Vergari & Van den Broeck, NeurIPS 2019.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray, frozen
from lcml.backend import Backend
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView, View
from lcml.errors import CircuitError, SettingsError
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoding import Encoder, encoded
from lcml.inputs.rows import chunks, row_sum
from lcml.model.distribution import ProbabilisticCircuit, fit_log_parameters

MissingPolicy = Literal["refuse", "prior", "expected"]


@dataclass(frozen=True, eq=False)
class Missing:
    """means (n_outputs,): probability of every encoded variable where its input is missing; distribution: over the one
    circuit of the model, None for the policy `prior`."""

    means: FloatArray
    distribution: ProbabilisticCircuit | None = None

    def __post_init__(self) -> None:
        means = frozen(self.means, np.float64)
        if means.ndim != 1 or not np.all((means >= 0) & (means <= 1)):
            raise CircuitError(f"missing: expected one probability per variable, found an array of shape {means.shape}")
        object.__setattr__(self, "means", means)

    @property
    def policy(self) -> MissingPolicy:
        return "prior" if self.distribution is None else "expected"

    def filled(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Encoded examples with means for NaN."""
        return np.where(np.isnan(values), self.means.astype(values.dtype), values)

    def with_expected(
        self, found: FloatArray, values: NDArray[np.floating], of_flows: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """found (n_examples, n), with what `of_flows` makes of their expected flows in the rows of encoded examples
        that lack values; as it is without a distribution."""
        rows = np.isnan(values).any(axis=1)
        if self.distribution is None or not rows.any():
            return found
        found = found.copy()
        found[rows] = of_flows(self.distribution.expected_flows(values[rows]))
        return found


def check_policy(policy: MissingPolicy, encoder: Encoder, views: Sequence[View]) -> None:
    """Raises SettingsError where a model of that encoder and those views of its parts cannot have the policy."""
    if policy != "refuse" and isinstance(encoder, ChannelEncoder):
        raise SettingsError(f"missing: {policy} is not defined for channels made of images; leave one of them out")
    if policy == "expected" and not is_whole(views):
        raise SettingsError(
            "missing: expected is for one circuit over the whole example (the view 'whole', structure splits), whose "
            "vtree the distribution shares; choose prior, or another structure"
        )


def is_whole(views: Sequence[View]) -> bool:
    """Whether these are of one circuit over the whole example."""
    return len(views) == 1 and isinstance(views[0], IdentityView)


def fit_missing(
    policy: MissingPolicy,
    encoder: Encoder,
    parts: Sequence[Part],
    x: Any,
    backend: Backend | None = None,
    weights: FloatArray | None = None,
) -> Missing | None:
    """What a policy must know of training examples x (n_examples, n_features): means, and for `expected` the
    distribution of largest smoothed likelihood. weights (n_examples,): how often each counts, once by default. Raises
    SettingsError as `check_policy`."""
    check_policy(policy, encoder, [part.view for part in parts])
    if policy == "refuse":
        return None
    values = encoded(encoder, x)
    total = len(values) if weights is None else weights.sum()
    means = sum(row_sum(values[rows], weights, rows) for rows in chunks(values)) / total
    distribution = None
    if policy == "expected":
        counts = np.ones(len(values)) if weights is None else weights
        fitted = fit_log_parameters(parts[0].circuit, values, counts[None, :], backend=backend)
        distribution = ProbabilisticCircuit(parts[0].circuit, fitted[0])
    return Missing(np.clip(means, 0, 1), distribution)
