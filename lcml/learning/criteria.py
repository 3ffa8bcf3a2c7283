"""What scores of splits are made of: sums over examples, of every element and of every pair (element, variable).

An element has the pooled flow f_i of example i and a feature F_i of it, a pair phi_i = f_i x_iv, pooled, and a feature
Phi_i; the features are the square roots where the view says so. With the weights w of the examples and the derivatives
of the loss by the logit of every weight set, first r (of examples weighted by w) and second h:

    gain      of elements  sum w f,  sum r F,    sum h F^2
              of pairs     sum w phi,  sum r Phi,    sum h Phi^2,  sum h F Phi
    variance  of elements  sum w f,  sum r f F,  sum r^2/w f F^2
              of pairs     sum w phi,  sum r phi F,  sum r^2/w phi F^2
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array

Criterion = Literal["gain", "variance"]

N_SUMS = {"gain": 7, "variance": 6}
"""Arrays of sums, three of them of elements."""

_FLOOR = np.finfo(np.float64).tiny


def element_sums(
    criterion: Criterion, flow: Array, feature: Array, weight: Array, first: Array, second: Array
) -> list[Array]:
    """Sums of elements, (1, m) and twice (n_sets, m), of flow and feature (m, n), weight (n, 1) and, (n, n_sets), r and
    what the criterion has as `second`."""
    left = feature if criterion == "gain" else flow * feature
    return [(flow @ weight).T, (left @ first).T, ((left * feature) @ second).T]


def pair_sums(
    criterion: Criterion, phi: Array, new: Array, feature: Array, weight: Array, first: Array, second: Array
) -> list[Array]:
    """Sums of pairs, (1, p) and two or three of (n_sets, p), of phi, its feature `new` and its element's (p, n)."""
    if criterion == "gain":
        sums = [new @ first, (new * new) @ second, (feature * new) @ second]
    else:
        left = phi * feature
        sums = [left @ first, (left * feature) @ second]
    return [(phi @ weight).T, *(array.T for array in sums)]


def second_derivatives(xp: Array, criterion: Criterion, weight: Array, residual: Array, curvature: Array) -> Array:
    """What stands beside r in the sums: h, or of the variance r^2/w, 0 where the weight is."""
    if criterion == "gain":
        return curvature
    return residual * residual / xp.where(weight > 0, weight, xp.ones_like(weight))


def scores(
    criterion: Criterion,
    of_elements: list[NDArray[np.float64]],
    of_pairs: list[NDArray[np.float64]],
    element: NDArray[np.int64],
    n_cells: int,
    l2: float,
) -> NDArray[np.float64]:
    """(n_pairs,) the scores of pairs, pair p of element[p], from sums with the rows of every cell in front."""
    if criterion == "gain":
        _, G0, D = of_elements
        _, G, H, C = of_pairs
        total = np.zeros(len(element))
        for k in range(len(G)):
            ratio = C[k] / np.maximum(D[k] + l2, _FLOOR)[element]
            total += (G[k] - G0[k, element] * ratio) ** 2 / np.maximum(H[k] - C[k] * ratio + l2, _FLOOR)
        return total
    flow, support = of_elements[0][:, element], of_pairs[0]
    first, second = (array.reshape(n_cells, -1, array.shape[1])[..., element] for array in of_elements[1:])
    first_x, second_x = (array.reshape(n_cells, -1, len(element)) for array in of_pairs[1:])

    def scatter(weight: NDArray[np.float64], one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((two - one * one / np.maximum(weight, _FLOOR)[:, None]).sum(axis=1))

    within = scatter(support, first_x, second_x) + scatter(flow - support, first - first_x, second - second_x)
    return np.asarray(((scatter(flow, first, second) - within) / np.maximum(flow, _FLOOR)).sum(axis=0))
