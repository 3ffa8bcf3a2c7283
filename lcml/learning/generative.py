"""A start of learning: the posterior under one distribution per class over the initial circuit.

Their parameters are known in closed form, and their logarithms are weights, see `lcml.model.probabilistic`: under the
softmax log theta_ek, less its mean over the classes, under the sigmoid for every weight set log theta_ek less that of
the other classes together. Source: Liang & Van den Broeck, AAAI 2019, section 6.
"""

import numpy as np

from lcml.backend import Backend
from lcml.circuits.parts import Part
from lcml.learning.parameters import Parameters
from lcml.learning.state import EncodedSet
from lcml.model.distribution import fit_log_parameters
from lcml.model.head import HEADS, Link


def generative_start(
    part: Part, train: EncodedSet, n_sets: int, link: Link, literal_weights: bool, backend: Backend
) -> Parameters:
    """The start in the order of a `Parametrisation` of the initial part, for examples of n_sets weight sets."""
    codes = HEADS[link].class_codes(n_sets)
    weights = np.ones(len(train.labels)) if train.weights is None else train.weights
    of_set = (train.labels == codes[:, None]) * weights
    log_theta = fit_log_parameters(part.circuit, train.values, of_set, backend=backend)
    log_prior = np.log(of_set.sum(axis=1) + 1)
    if HEADS[link].is_joint:
        log_theta, log_prior = log_theta - log_theta.mean(axis=0), log_prior - log_prior.mean()
    else:
        of_others = weights - of_set
        log_theta -= fit_log_parameters(part.circuit, train.values, of_others, backend=backend)
        log_prior -= np.log(of_others.sum(axis=1) + 1)
    if not part.circuit.n_or_gates:  # of one variable its positive literal alone carries a weight
        return Parameters(log_theta[:, :1] - log_theta[:, 1:], log_prior + log_theta[:, 1])
    hidden = np.zeros((n_sets, part.circuit.n_literals if literal_weights else 0))
    return Parameters(np.concatenate([hidden, log_theta], axis=1), log_prior)
