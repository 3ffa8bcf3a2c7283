"""Score every possible split of a circuit: which element to split on which variable.

After splitting element e (flow f_i of example i) on a free variable v (value x_iv) the new feature is exactly
phi_i = f_i x_iv. With residuals r_ik = t_ik - p_ik and curvatures h_ik = p_ik (1 - p_ik), weighted by example:

    gain      (second order)  sum_k (G - G0 C / D)^2 / (H - C^2 / D + l2)
              G0 = sum r f, G = sum r phi, H = sum h phi^2, C = sum h f phi, D = sum h f^2 + l2
              the decrease of the loss, times two, when phi's weight is fitted beside that of f
    variance  (Liang & Van den Broeck, AAAI 2019, section 4.2) the weighted variance of the partial derivatives r_ik f_i
              before the split less that within the groups weighted by x_iv and 1 - x_iv, each group by its share of e's
              flow; the split whose groups vary least, summed over classes, is the best of its element

Elements of one vtree node and variables of its scope meet in matrix products over examples; nothing loops over
examples, elements or variables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array
from lcml.circuit import Circuit
from lcml.objective import Objective, Parameters

Criterion = Literal["gain", "variance"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Splits with their scores, in no order: element, variable (n_candidates,), score (larger is better)."""

    element: NDArray[np.int64]
    variable: NDArray[np.int64]
    score: NDArray[np.float64]


def score_splits(
    objective: Objective,
    parameters: Parameters,
    criterion: Criterion = "gain",
    *,
    minimum_support: float = 1.0,
    per_element: int = 1,
    chunks: Sequence[int] | None = None,
) -> Candidates:
    """The best `per_element` splits of every element whose two halves both keep enough flow.

    minimum_support: the least flow, in examples, of either half (over the chunks read, scaled to all examples);
    chunks: the chunks of the feature store to read, all by default.
    """
    features = objective.features
    circuit = features.circuit
    groups = _groups(circuit)
    if not groups:
        return Candidates(np.array([], dtype=np.int64), np.array([], dtype=np.int64), np.array([]))
    statistics = _gain_sums if criterion == "gain" else _variance_sums
    rows = features.rows[circuit.n_literals :]
    on_device = [
        (features.backend.asarray(rows[elements]), features.backend.asarray(variables))
        for elements, variables in groups
    ]
    weights, bias = objective.on_device(parameters)

    def sums(examples: slice, values: Array) -> tuple[Array, ...]:
        logits = weights @ values + bias
        residual, curvature = objective.residual(logits, examples), objective.curvature(logits, examples)
        return tuple(
            array
            for element_rows, variables in on_device
            for array in statistics(features.backend.xp, values, element_rows, variables, residual, curvature)
        )

    totals = [features.backend.to_host(total) for total in features.sum(sums, chunks)]
    share = 1.0 if chunks is None else features.share(chunks)
    parts = []
    per_group = len(totals) // len(groups)
    for index, (elements, variables) in enumerate(groups):
        support, flow, *rest = totals[index * per_group : (index + 1) * per_group]
        score = _gain(rest, objective.l2 * share) if criterion == "gain" else _variance(support, flow, rest)
        allowed = np.minimum(support, flow[:, None] - support) >= minimum_support * share
        allowed &= _is_free(circuit, elements, variables)
        score = np.where(allowed & (score > 0), score, -np.inf)
        best = np.argsort(-score, axis=1, kind="stable")[:, :per_element]
        chosen = np.take_along_axis(score, best, axis=1)
        where, rank = np.nonzero(np.isfinite(chosen))
        parts.append((elements[where], variables[best[where, rank]], chosen[where, rank]))
    element, variable, score = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Candidates(element, variable, score)


def _groups(circuit: Circuit) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(elements, variables) of every vtree node that has something to split."""
    groups: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    if not circuit.n_elements:
        return groups
    elem_vtree = circuit.or_vtree[circuit.elem_or]
    order = np.argsort(elem_vtree, kind="stable")
    nodes, first = np.unique(elem_vtree[order], return_index=True)
    for node, elements in zip(nodes, np.split(order, first[1:]), strict=True):
        variables = circuit.vtree.scope(node).astype(np.int64)
        free = _is_free(circuit, elements, variables)
        elements, variables = elements[free.any(axis=1)], variables[free.any(axis=0)]
        if elements.size:
            groups.append((elements, variables))
    return groups


def _is_free(circuit: Circuit, elements: NDArray[np.int64], variables: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(n_elements, n_variables): whether neither literal of the variable is implied at the element."""
    column = {variable: index for index, variable in enumerate(variables.tolist())}
    free = np.ones((len(elements), len(variables)), dtype=bool)
    for row, element in enumerate(elements.tolist()):
        decided = circuit.implied[circuit.elem_prime[element]] | circuit.implied[circuit.elem_sub[element]]
        for literal in decided:
            index = column.get(literal % circuit.n_variables)
            if index is not None:
                free[row, index] = False
    return free


def _gain_sums(
    xp: Array, values: Array, rows: Array, variables: Array, residual: Array, curvature: Array
) -> tuple[Array, ...]:
    """Sums f x (m, v) and f (m,); then per class G (k, m, v), G0 (k, m), H (k, m, v), C (k, m, v), D (k, m)."""
    flow, x = xp.take(values, rows, axis=0), xp.take(values, variables, axis=0).T
    first = residual[:, None, :] * flow
    second = curvature[:, None, :] * (flow * flow)
    return (
        flow @ x,
        xp.sum(flow, axis=1),
        first @ x,
        xp.sum(first, axis=2),
        second @ (x * x),
        second @ x,
        xp.sum(second, axis=2),
    )


def _gain(sums: list[NDArray[np.float64]], l2: float) -> NDArray[np.float64]:
    """(m, v) second-order gain, summed over classes."""
    G, G0, H, C, D = sums
    D = (D + l2)[:, :, None]
    G0 = G0[:, :, None]
    floor = np.finfo(np.float64).tiny
    numerator = (G - G0 * C / np.maximum(D, floor)) ** 2
    return np.asarray((numerator / np.maximum(H - C * C / np.maximum(D, floor) + l2, floor)).sum(axis=0))


def _variance_sums(
    xp: Array, values: Array, rows: Array, variables: Array, residual: Array, curvature: Array
) -> tuple[Array, ...]:
    """Sums f x (m, v) and f (m,); then per class, with g = r f, of f x g, f g, f x g^2, f g^2: (k, m, v), (k, m) .."""
    flow, x = xp.take(values, rows, axis=0), xp.take(values, variables, axis=0).T
    derivative = residual[:, None, :] * flow
    first = derivative * flow
    second = first * derivative
    return flow @ x, xp.sum(flow, axis=1), first @ x, xp.sum(first, axis=2), second @ x, xp.sum(second, axis=2)


def _variance(
    support: NDArray[np.float64], flow: NDArray[np.float64], sums: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """(m, v) decrease of the summed variance: flow-weighted variance before less that within the two groups."""
    first_x, first, second_x, second = sums
    floor = np.finfo(np.float64).tiny

    def scatter(weight: NDArray[np.float64], one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((two - one * one / np.maximum(weight, floor)).sum(axis=0))

    rest = flow[:, None] - support
    within = scatter(support, first_x, second_x) + scatter(
        rest, first[:, :, None] - first_x, second[:, :, None] - second_x
    )
    before = scatter(flow, first, second)[:, None]
    return (before - within) / np.maximum(flow, floor)[:, None]
