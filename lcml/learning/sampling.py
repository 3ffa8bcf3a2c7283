"""Which training examples growth sees: the first so many of an order in which every class is spread evenly.

Structure needs fewer examples than weights: which splits are worth most shows on a few examples for every feature that
is fitted beside them. So the sample grows with the circuit, the final fits see all, and as a sample begins with the
one before it, only what is new is computed.
"""

import math

import numpy as np
from numpy.typing import NDArray


def stratified_order(labels: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A random order (n,) of examples: of the first m, m n_k / n are of a class that n_k have, give or take what
    chance leaves: of one of two classes at most two, of many classes some root of their number more.

    The examples of a class are dealt out at random, one to each of n_k equal intervals of [0, 1).
    """
    rng, place = np.random.default_rng(seed), np.empty(len(labels))
    for code in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == code))
        place[members] = (np.arange(len(members)) + rng.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")


def sample_size(per_feature: float | None, n_features: int, n_examples: int, multiple: int) -> int:
    """So many examples per feature, in whole multiples, at most all n_examples; None: all."""
    if per_feature is None:
        return n_examples
    return min(n_examples, math.ceil(per_feature * n_features / multiple) * multiple)
