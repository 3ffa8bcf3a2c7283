"""How much a model's logits depend on every raw feature."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend
from lcml.inputs.table import Table
from lcml.model.model import LogisticCircuit


def feature_importances(model: LogisticCircuit, x: NDArray[np.generic] | Table, backend: Backend) -> FloatArray:
    """(n_features,) shares of 1: the mean absolute change of the logits when feature j of an example is another's.

        I_j = mean over i, k of |g_k(x_i) - g_k(x_i with x_ij := x_(i-1)j)|,   scaled so that all sum to 1

    x (n, n_features): raw examples in a random order. All are 0 where no logit changes. This is permutation importance
    (Breiman, Random Forests, 2001, section 10) of the logits instead of the accuracy. Raises as
    `LogisticCircuit.logits`.
    """
    logits = model.logits(x, backend)
    values = np.asarray(x.values if isinstance(x, Table) else x)
    others = np.roll(values, 1, axis=0)
    changes = np.zeros(values.shape[1])
    for j in np.flatnonzero((values != others).any(axis=0)):
        moved = values.copy()
        moved[:, j] = others[:, j]
        changed = replace(x, values=moved) if isinstance(x, Table) else moved
        changes[j] = np.abs(model.logits(changed, backend) - logits).mean()
    total = float(changes.sum())
    return changes / total if total else changes
