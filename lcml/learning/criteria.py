"""What scores of splits are made of: sums over examples, of every element and of every pair (element, variable).

An element has the pooled flow f_i of example i and a feature F_i of it, a pair phi_i = f_i x_iv, pooled, and a feature
Phi_i; the features are the square roots where the view says so. With the signals r and h of every weight set:

    gain      of elements  sum f,  sum r F,    sum h F^2    of pairs  sum phi,  sum r Phi,    sum h Phi^2,  sum h F Phi
    variance  of elements  sum f,  sum r f F,  sum r^2 f F^2  of pairs  sum phi,  sum r phi F,  sum r^2 phi F^2
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
    xp: Array, criterion: Criterion, flow: Array, feature: Array, residual: Array, curvature: Array
) -> list[Array]:
    """Sums of elements, (1, m) and twice (n_sets, m), of flow and feature (m, n) and signals (n, n_sets)."""
    if criterion == "gain":
        sums = feature @ residual, (feature * feature) @ curvature
    else:
        weighted = flow * feature
        sums = weighted @ residual, (weighted * feature) @ (residual * residual)
    return [xp.sum(flow, axis=1)[None, :], *(array.T for array in sums)]


def pair_sums(
    xp: Array, criterion: Criterion, phi: Array, new: Array, feature: Array, residual: Array, curvature: Array
) -> list[Array]:
    """Sums of pairs, (1, p) and two or three of (n_sets, p), of phi, its feature `new` and its element's (p, n)."""
    if criterion == "gain":
        sums = [new @ residual, (new * new) @ curvature, (feature * new) @ curvature]
    else:
        weighted = phi * feature
        sums = [weighted @ residual, (weighted * feature) @ (residual * residual)]
    return [xp.sum(phi, axis=1)[None, :], *(array.T for array in sums)]


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
