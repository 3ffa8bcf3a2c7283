"""Features of product circuits on a CPU, compiled by numba.

One call computes a chunk of examples on one core and leaves the interpreter's lock alone: threads run it side by side.
MANY_LANES examples are worked on together: a slot's flow stays in registers while its factors are multiplied to it. All
that is kept beyond that are flows that gates read, and sums over the positions of a cell.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lcml.backend.kernels.compiled import compiled
from lcml.backend.kernels.lanes import MANY_LANES, add, load_many, multiply, spread_many, store


@compiled(fastmath=True)
def product_features(
    examples: NDArray[Any],
    index: NDArray[np.int32],
    cell_start: NDArray[np.int32],
    position_weight: NDArray[np.int32],
    root: bool,
    wire_start: NDArray[np.int32],
    wires: NDArray[np.int32],
    slot_start: NDArray[np.int32],
    factor_start: NDArray[np.int32],
    factors: NDArray[np.int32],
    wanted: NDArray[np.int32],
    rows: NDArray[np.int32],
    scale: float,
    out: NDArray[Any],
) -> None:
    """Write the features of `examples` (n_examples, n_inputs) to out[rows], see lcml.passes.feature_map.FeatureMap.

    index (n_positions, n_variables) to root: of the view. From wire_start to wanted, a
    lcml.passes.products.ProductProgram: gates stand from the root down; gate g sums the slots
    wires[wire_start[g]:wire_start[g+1]] (none: 1) and feeds the slots slot_start[g]:slot_start[g+1]; a slot multiplies
    its gate's flow by the literals factors[factor_start[s]:factor_start[s+1]]. wanted (n_wanted,): slots. rows
    (n_cells * n_wanted,): where in out, which holds feature * scale, rounded if scale > 1.
    """
    n_examples, n_inputs = examples.shape
    n_variables = index.shape[1]
    n_gates, n_wanted = len(slot_start) - 1, len(wanted)
    one = examples.dtype.type(1)
    literal = np.zeros((2 * n_inputs + 2) * MANY_LANES, examples.dtype)  # inputs, a row of zeros, and their complements
    complements = (n_inputs + 1) * MANY_LANES
    row = np.empty(2 * n_variables, np.int64)  # where that of a literal of the circuit begins, at a position
    place, wanted_at = np.full(len(factor_start) - 1, -1), np.full(len(factor_start) - 1, -1)  # of slots
    n_read = 0
    for wire in wires:
        if place[wire] < 0:
            place[wire] = n_read * MANY_LANES
            n_read += 1
    flow = np.ones((n_read + 2) * MANY_LANES, examples.dtype)  # of slots, 1, and of a gate that several slots lead to
    of_all, of_several = n_read * MANY_LANES, (n_read + 1) * MANY_LANES
    total = np.empty(n_wanted * MANY_LANES, examples.dtype)
    weight = position_weight.astype(examples.dtype)
    for w in range(n_wanted):
        wanted_at[wanted[w]] = w
    for first in range(0, n_examples, MANY_LANES):
        n_lanes = min(MANY_LANES, n_examples - first)
        for variable in range(n_inputs):
            for lane in range(n_lanes):
                literal[variable * MANY_LANES + lane] = examples[first + lane, variable]
        for at in range(complements):
            literal[complements + at] = one - literal[at]
        for cell in range(len(cell_start) - 1):
            begin, end = cell_start[cell], cell_start[cell + 1]
            share = one / weight[begin:end].sum()
            is_pooled = begin + 1 < end
            if is_pooled:
                total[:] = 0
            for position in range(begin, end):
                for variable in range(n_variables):
                    at = index[position, variable] * MANY_LANES
                    row[variable], row[n_variables + variable] = at, complements + at
                for g in range(n_gates):
                    wire, stop = wire_start[g], wire_start[g + 1]
                    gate = of_all if wire == stop else place[wires[wire]]
                    if wire + 1 < stop:
                        value, gate = load_many(flow, gate), of_several
                        for w in range(wire + 1, stop):
                            value = add(value, load_many(flow, place[wires[w]]))
                        store(flow, gate, value)
                    for slot in range(slot_start[g], slot_start[g + 1]):
                        value = load_many(flow, gate)
                        for f in range(factor_start[slot], factor_start[slot + 1]):
                            value = multiply(value, load_many(literal, row[factors[f]]))
                        if place[slot] >= 0:
                            store(flow, place[slot], value)
                        to = wanted_at[slot] * MANY_LANES
                        if to >= 0 and is_pooled:
                            store(total, to, add(load_many(total, to), multiply(value, spread_many(weight, position))))
                        elif to >= 0:
                            store(total, 0, value)
                            to_row = rows[cell * n_wanted + wanted_at[slot]]
                            _write(total[:n_lanes], share, root, scale, out[to_row, first : first + n_lanes])
            if is_pooled:
                for w in range(n_wanted):
                    of_row, to_row = w * MANY_LANES, rows[cell * n_wanted + w]
                    pooled = total[of_row : of_row + n_lanes]
                    _write(pooled, share, root, scale, out[to_row, first : first + n_lanes])


@njit(nogil=True, inline="always")
def _write(total: NDArray[Any], share: float, root: bool, scale: float, out: NDArray[Any]) -> None:
    """Put the mean, or its root, times `scale` into `out`; both in one piece, or the compiler does it one by one."""
    half, most = (0.5, scale) if scale > 1 else (0.0, np.inf)  # rounding can put a sum of flows above 1
    for lane in range(len(out)):
        value = total[lane] * share
        value = np.sqrt(value) if root else value
        out[lane] = min(value * scale + half, most)
