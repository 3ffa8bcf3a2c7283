"""The additive part of a table's model: a piecewise linear function of every number, a constant for every category.

Of a column with knots k_0 < ... < k_m and the hat functions h_0 .. h_m at them, the function is sum_j v_j h_j(x) with

    v = theta_0 (k - mean) / std + cumulative sum of theta_1 .. theta_m

a straight line, penalised in units of the column's standard deviation, and what every interval rises by beside it. Of a
category, or a gap, v = theta. What is minimised is convex,

    sum_i w_i l(y_i, g(x_i)) + l2 / 2 |theta|^2

with the loss of `lcml.model.head` and a bias without penalty. `l2` counts against a sum, not a mean, of losses: it is
the inverse of the variance that is expected of theta, whatever the number of examples.

Of more coefficients than examples the best theta is a sum of the examples' rows x_i of the design X (the representer
theorem: Kimeldorf & Wahba 1971). With X X' = U S U' and beta = S^-1/2 U' X theta, X theta = U S^1/2 beta and |theta| =
|beta|: the same problem, of as many coefficients as there are examples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, diags_array, eye_array

from lcml.arrays import FloatArray
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.learning.solver import LBFGS, SolverSettings, never
from lcml.model.head import Head

MAX_ITERATIONS, TOLERANCE = 40, 1e-3
"""Of a penalty: more steps, or slopes nearer to 0, change nothing that examples held out could tell."""

MANY_COEFFICIENTS, FEW_EXAMPLES = 4096, 2000
"""More coefficients than the one, of at most as many examples as the other, are found as such sums of rows."""

MOST_TOGETHER = 1024
"""Coefficients whose products with each other are looked at; of more only their squares."""

MOST_DENSE = 1 << 21
"""Numbers up to which rows are kept dense."""

_BLOCK = 64  # columns that are then looked at together
_LEAST_DEVIATION = 1e-3  # of a column, as a share of its range: an outlier must not make the rest one point

_LEAST_PENALTY = 1e-10
"""Of a coefficient, as a share of its curvature, when steps are measured: weights may be huge, columns the same."""

_LEAST_SQUARE = 1e-12  # directions of a smaller share of the largest square are rounding errors


@dataclass(frozen=True, eq=False)
class Theta:
    """Coefficients (n_theta, n_sets) and bias (n_sets,) of the additive part."""

    weights: FloatArray
    bias: FloatArray


class AdditiveDesign:
    """What the additive part sees of the codes (n, d) of a table's columns, see `Column.codes`.

    Example i has the logits hats[i] @ basis @ theta.weights + theta.bias; these weights are the module's theta, or of
    few examples its beta. mass: the sum of `masses` of these and all other examples, where there are others.
    """

    def __init__(
        self, columns: Sequence[Column], codes: FloatArray, weights: FloatArray, mass: FloatArray | None = None
    ) -> None:
        self._in_span = mass is None and is_in_span(columns, len(codes))
        step = _BLOCK if self._in_span else len(columns)
        parts = [slice(first, first + step) for first in range(0, len(columns), step)]
        blocks = (_block(columns[of], codes[:, of], weights, mass) for of in parts)
        if not self._in_span:
            ((self.hats, self.basis),) = blocks
            return
        self._blocks, square = [], np.zeros((len(codes), len(codes)))
        for hats, basis in blocks:
            rows = hats @ basis
            self._blocks.append((rows, basis))
            dense = rows.toarray()
            square += dense @ dense.T
        squares, axes = np.linalg.eigh(square)
        kept = squares > _LEAST_SQUARE * squares[-1]
        axes, lengths = axes[:, kept], np.sqrt(squares[kept])
        self.hats, self.basis = csr_array(axes * lengths), eye_array(len(lengths), format="csr")
        self._of_rows = axes / lengths

    def values(self, theta: Theta) -> FloatArray:
        """(n_states, n_sets) the function at every knot, category and gap."""
        if self._in_span:
            of_rows = self._of_rows @ theta.weights
            return np.concatenate([basis @ (rows.T @ of_rows) for rows, basis in self._blocks])
        return np.asarray(self.basis @ theta.weights)

    def logits(self, theta: Theta, rows: NDArray[np.intp] | slice = slice(None)) -> FloatArray:
        """(n_rows, n_sets)."""
        return np.asarray(self.hats[rows] @ (self.basis @ theta.weights) + theta.bias)

    def of_variables(self, theta: Theta, encoder: ColumnsEncoder) -> Theta:
        """The same function as weights (n_outputs, n_sets) of the encoder's variables, 0 for steps, and a bias."""
        weights, bias = np.zeros((encoder.n_outputs, theta.weights.shape[1])), theta.bias.copy()
        first_state = 0
        values = self.values(theta)
        for column, block in zip(encoder.columns, encoder.blocks, strict=False):
            v = values[first_state : first_state + _n_states(column)]
            first_state += len(v)
            known = v[: len(v) - column.gaps]
            base = np.zeros_like(bias)
            if column.kind != "category" or column.spared:
                base, known = known[0], np.diff(known, axis=0)
            bias += base
            if column.gaps:
                weights[block] = v[-1] - base
            weights[block + column.gaps : block + column.gaps + len(known)] = known
        return Theta(weights, bias)


@dataclass(frozen=True, eq=False)
class AdditiveFit:
    """The convex problem over some rows of a design: targets (n_rows, n_sets), example weights (n_rows,)."""

    design: AdditiveDesign
    rows: NDArray[np.intp]
    targets: FloatArray
    weights: FloatArray
    head: Head

    def totals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows: of the weights of every set's class (n_sets,), of the weights, and of the products of any
        two coefficients' columns, the bias' last, (n_theta + 1, n_theta + 1); of many the squares (n_theta + 1,)."""
        by_class, total, (first, *rest) = self.weights @ self.targets, self.weights.sum(), self._factors
        if self.design.basis.shape[1] > MOST_TOGETHER:
            squares = _product([factor**2 for factor in self._transposed], self.weights)
            return by_class, total, np.append(squares, total)
        products = first.T @ (first * self.weights[:, None])
        for factor in rest:
            products = (factor.T @ products @ factor).toarray()
        with_bias = _product(self._transposed, self.weights)
        return by_class, total, np.block([[products, with_bias[:, None]], [with_bias, total]])

    def loss_and_gradient(self, theta: Theta) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the rows, without penalty: the loss, and its gradient by weights and by bias."""
        logits = np.ascontiguousarray((_product(self._factors, theta.weights) + theta.bias).T)
        residual = self.head.residual(np, logits, self.targets.T) * self.weights
        loss = (self.head.loss(np, logits, self.targets.T) * self.weights).sum()
        return loss, _product(self._transposed, residual.T), residual.sum(axis=1)

    @cached_property
    def _factors(self) -> Sequence[Any]:
        """Of the design's rows; a dense one where these are few."""
        hats, basis = self.design.hats[self.rows], self.design.basis
        return [(hats @ basis).toarray()] if hats.shape[0] * basis.shape[1] <= MOST_DENSE else [hats, basis]

    @cached_property
    def _transposed(self) -> Sequence[Any]:
        rows = [factor.T for factor in reversed(self._factors)]
        return [of if isinstance(of, np.ndarray) else of.tocsr() for of in rows]  # a product then writes in order

    def start(self) -> Theta:
        return start_of(*self.totals())

    def minimise(self, l2: float, start: Theta, *options: Any) -> Theta:
        return minimise_additive(self.totals(), self.loss_and_gradient, l2, start, *options)


def start_of(by_class: FloatArray, total: FloatArray, products: FloatArray) -> Theta:
    """Of the sums of `AdditiveFit.totals` no coefficient, and the bias of the classes' shares."""
    shares = (by_class + 0.5) / (total + 1)
    bias = np.log(shares / (1 - shares)) if len(shares) == 1 else np.log(shares)
    return Theta(np.zeros((len(products) - 1, len(bias))), bias)


def minimise_additive(
    totals: Sequence[Any],
    loss_and_gradient: Callable[[Theta], Sequence[Any]],
    l2: float,
    start: Theta,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    should_stop: Callable[[], bool] = never,
) -> Theta:
    """Where the loss is least, from `start`, by the sums of `AdditiveFit` over all rows.

    L-BFGS in the axes of the curvature p (1 - p) X' W X + l2 that the loss would have with the classes' shares as p,
    scaled so that the mean loss bends by 1 there: of a slope within `tolerance` half the square is left to gain.
    """
    by_class, total, products = totals
    share, total = by_class / total, float(total)
    curvature = max(float((share * (1 - share)).mean()), 1e-3)
    axes = _axes(curvature * products, np.append(np.full(len(products) - 1, l2), 0.0)) * total**0.5
    first = np.vstack([start.weights, start.bias])

    def at(steps: FloatArray) -> FloatArray:
        return np.asarray(first + axes @ steps.reshape(first.shape))

    def evaluated(steps: FloatArray) -> tuple[float, FloatArray]:
        theta = at(steps)
        loss, by_weights, by_bias = loss_and_gradient(Theta(theta[:-1], theta[-1]))
        slope = axes.T @ np.vstack([by_weights + l2 * theta[:-1], by_bias])
        return (float(loss) + l2 / 2 * float((theta[:-1] ** 2).sum())) / total, slope.ravel() / total

    nothing = np.zeros(first.size)
    search = LBFGS(nothing, *evaluated(nothing), SolverSettings(max_iterations, tolerance))
    while search.is_open:
        search.update(*evaluated(search.trial()))
        if should_stop():
            break
    theta = at(search.point)
    return Theta(theta[:-1], theta[-1])


def _axes(curvature: FloatArray, penalty: FloatArray) -> Any:
    """Directions, in columns, of curvature 1 that do not bend into each other, as far as the curvature tells."""
    if curvature.ndim == 1:
        return diags_array(1 / np.sqrt(curvature + penalty))
    added = penalty + _LEAST_PENALTY * np.diag(curvature)
    return np.linalg.inv(np.linalg.cholesky(curvature + np.diag(added))).T


def _product(factors: Sequence[Any], right: FloatArray) -> FloatArray:
    for factor in reversed(factors):
        right = factor @ right
    return right


def is_in_span(columns: Sequence[Column], n_examples: int) -> bool:
    """Whether coefficients are found as sums of the examples' rows."""
    n_coefficients = sum(column.n_outputs for column in columns)
    return n_examples <= FEW_EXAMPLES and n_coefficients > max(n_examples, MANY_COEFFICIENTS)


def masses(columns: Sequence[Column], codes: FloatArray, weights: FloatArray) -> FloatArray:
    """(n_states,) the weight of the examples at every knot, category and gap."""
    return np.asarray(_all_hats(columns, codes).T @ weights)


def _block(
    columns: Sequence[Column], codes: FloatArray, weights: FloatArray, mass: FloatArray | None = None
) -> tuple[Any, Any]:
    """Sparse (n, n_states) hats and (n_states, n_coefficients) basis of some columns."""
    hats = _all_hats(columns, codes)
    states = [_n_states(column) for column in columns]
    firsts = np.cumsum([0, *states])
    mass = hats.T @ weights if mass is None else mass
    lines = [_line(column, mass[first : first + n]) for column, first, n in zip(columns, firsts, states, strict=False)]
    return hats, csr_array(block_diag([_basis(*of_column) for of_column in zip(columns, lines, strict=True)]))


def _all_hats(columns: Sequence[Column], codes: FloatArray) -> Any:
    """Sparse (n, n_states) shares that every value has of the states of its column."""
    states = [_n_states(column) for column in columns]
    firsts = np.cumsum([0, *states])
    indices, shares = [], []
    for column, first, of_column in zip(columns, firsts, np.ascontiguousarray(codes.T), strict=False):
        index, share = _hats(column, of_column)
        indices.append(index + first)
        shares.append(share)
    index, share = np.concatenate(indices, axis=1), np.concatenate(shares, axis=1)
    used = share.any(axis=0)
    index, share = index[:, used], share[:, used]
    starts = np.arange(len(codes) + 1) * index.shape[1]
    return csr_array((share.ravel(), index.ravel(), starts), shape=(len(codes), int(firsts[-1])))


def _n_states(column: Column) -> int:
    """Hats or categories, and a gap."""
    values = len(column.categories) + column.shared if column.kind == "category" else len(column.knots)
    return values + column.gaps


def _hats(column: Column, codes: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """(n, 2) the states that a value has a share of, and these shares."""
    index, share = np.zeros((len(codes), 2), np.intp), np.zeros((len(codes), 2))
    n_states = _n_states(column)
    gap = np.isnan(codes)
    if column.kind == "category":
        known = codes < n_states if column.spared else True  # an unknown value of two is read as the first
        index[:, 0] = np.where(~gap & known, codes, 0)
        share[:, 0] = ~gap & (index[:, 0] < n_states - column.gaps)
        index[share[:, 0] == 0, 0] = 0
    elif len(column.knots) > 1:
        knots = column.knots
        x = np.clip(np.where(gap, knots[0], codes), knots[0], knots[-1])
        left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
        above = (x - knots[left]) / (knots[left + 1] - knots[left])
        index[:], share[:] = np.stack([left, left + 1], axis=1), np.stack([1 - above, above], axis=1)
    else:
        share[:, 0] = 1
    if gap.any():
        index[gap] = n_states - 1
        share[gap] = [1.0, 0.0]
    return index, share


def _line(column: Column, mass: FloatArray) -> FloatArray:
    """(n_knots,) the standardised straight line at the knots; none for a category or two knots."""
    if column.kind == "category" or len(column.knots) < 3:
        return np.zeros(0)
    share: FloatArray = (column.knots - column.knots[0]) / (column.knots[-1] - column.knots[0])
    mass = mass[: len(share)]
    share -= np.average(share, weights=mass)
    return share / max(float(np.sqrt(np.average(share**2, weights=mass))), _LEAST_DEVIATION)


def _basis(column: Column, line: FloatArray) -> FloatArray:
    """(n_states, n_theta) what every coefficient is at every state."""
    n_states = _n_states(column)
    if column.kind == "category":
        return np.eye(n_states)
    n_knots = len(column.knots)
    of_knots = np.tril(np.ones((n_knots, n_knots)))[:, 1:]
    if line.size:
        of_knots = np.column_stack([line, of_knots])
    basis = np.zeros((n_states, of_knots.shape[1] + column.gaps))
    basis[:n_knots, : of_knots.shape[1]] = of_knots
    if column.gaps:
        basis[-1, -1] = 1
    return basis
