"""From a probabilistic circuit per class to the logistic circuit of its posterior.

With one structure for all classes, and under class k a probability theta_ek on every wire to an element e (those of
one or gate sum to 1), an example's joint probability is pi_k times the theta_ek of the elements that prove it:

    log Pr(k, x) = log pi_k + sum_e flow_e(x) log theta_ek

So the posterior is a logistic circuit: its weights are the logs of the parameters under the softmax, and for two
classes under the sigmoid the log ratios log theta_e1 / theta_e0, with the bias log pi_1 / pi_0.
Source: Liang & Van den Broeck, AAAI 2019, section 6, Proposition 6 and Fig. 5. It holds for Boolean examples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lcml.arrays import FloatArray
from lcml.circuits.circuit import Circuit
from lcml.errors import CircuitError
from lcml.inputs.encoding import Encoder
from lcml.model.distribution import ProbabilisticCircuit
from lcml.model.head import HEADS, Link
from lcml.model.model import LogisticCircuit

_TOLERANCE = 1e-9


def posterior_weights(
    circuit: Circuit, parameters: ArrayLike, priors: ArrayLike, link: Link = "sigmoid"
) -> tuple[FloatArray, FloatArray]:
    """(element_weights, bias) of the logistic circuit whose probabilities are Pr(class | x).

    parameters (n_classes, n_elements): positive, those of each or gate sum to 1; priors (n_classes,): positive, sum 1.
    More than two classes need the softmax. Raises CircuitError for anything else.
    """
    theta, pi = np.asarray(parameters, dtype=np.float64), np.asarray(priors, dtype=np.float64)
    if theta.shape != (len(pi), circuit.n_elements):
        raise CircuitError(f"expected parameters of shape {(len(pi), circuit.n_elements)}, found {theta.shape}")
    n_sets = HEADS[link].n_sets(len(pi))
    if n_sets > 1 and not HEADS[link].is_joint:
        raise CircuitError(f"the posterior of {len(pi)} classes is no one-vs-rest {link}; use the softmax link")
    if not (np.all(theta > 0) and np.all(pi > 0)):
        raise CircuitError("expected positive parameters and priors: the logarithm of 0 is no weight")
    if abs(pi.sum() - 1) > _TOLERANCE:
        raise CircuitError(f"expected priors that sum to 1, found a sum of {pi.sum()}")
    sums = np.add.reduceat(theta, circuit.or_start[:-1], axis=1) if circuit.n_or_gates else np.ones((1, 1))
    wrong = np.argwhere(np.abs(sums - 1) > _TOLERANCE)
    if wrong.size:
        k, gate = wrong[0]
        raise CircuitError(f"class {k}, or gate {gate}: its parameters sum to {sums[k, gate]}, expected 1")
    if n_sets == 1:
        return np.log(theta[1:] / theta[:1]), np.log(pi[1:] / pi[:1])
    return np.log(theta), np.log(pi)


def from_distributions(
    distributions: Sequence[ProbabilisticCircuit],
    priors: ArrayLike,
    encoder: Encoder,
    classes: tuple[int, ...] | tuple[str, ...],
) -> LogisticCircuit:
    """The model whose probabilities are Pr(class | x) under one distribution per class, all over one structure, for
    Boolean x: under the sigmoid for two classes, else the softmax.

    priors (n_classes,): positive, sum 1. Raises CircuitError where structures differ or a parameter is 0.
    """
    circuit = distributions[0].circuit
    for k, distribution in enumerate(distributions):
        if not distribution.circuit.same_as(circuit):
            raise CircuitError(f"the distribution of class {classes[k]!r} has another structure than that of the first")
    logs = np.array([distribution.log_parameters for distribution in distributions])
    link: Link = "sigmoid" if len(classes) == 2 else "softmax"
    if circuit.n_or_gates:
        weights, bias = posterior_weights(circuit, np.exp(logs), priors, link)
        return LogisticCircuit.flat(circuit, encoder, classes, weights, None, bias, link)
    _, bias = posterior_weights(circuit, np.empty((len(logs), 0)), priors, link)
    literal_weights = logs[1:] - logs[:1] if link == "sigmoid" else logs
    return LogisticCircuit.flat(circuit, encoder, classes, np.empty((len(bias), 0)), literal_weights, bias, link)
