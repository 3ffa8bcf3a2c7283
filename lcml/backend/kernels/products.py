"""Features of product circuits on a CPU, compiled by numba.

One call computes a chunk of examples on one core and leaves the interpreter's lock alone: threads run it side by side.
_LANES examples are worked on together, few enough for the flows of a circuit's elements to stay in the cache.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lcml.backend.kernels.compiled import compiled
from lcml.backend.kernels.lanes import LANES, add, load, multiply, store

_LANES = 4 * LANES  # examples of which one reading of the program serves


@compiled(fastmath=True)
def product_features(
    examples: NDArray[Any],
    index: NDArray[np.int32],
    cell_start: NDArray[np.int32],
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

    index (n_positions, n_variables), cell_start (n_cells + 1,), root: of the view. From wire_start to wanted, a
    lcml.passes.products.ProductProgram: gates stand from the root down; gate g sums the slots
    wires[wire_start[g]:wire_start[g+1]] (none: 1) and feeds the slots slot_start[g]:slot_start[g+1]; a slot multiplies
    its gate's flow by the literals factors[factor_start[s]:factor_start[s+1]]. wanted (n_wanted,): slots, or
    -1 - literal. rows (n_cells * n_wanted,): where in out, which holds feature * scale, rounded if scale > 1.
    """
    n_examples, n_inputs = examples.shape
    n_variables = index.shape[1]
    n_gates, n_slots, n_wanted = len(slot_start) - 1, len(factor_start) - 1, len(wanted)
    one = examples.dtype.type(1)
    half, most = (0.5, scale) if scale > 1 else (0.0, np.inf)  # rounding can put a sum of flows above 1
    literal = np.zeros((2 * n_inputs + 2) * _LANES, examples.dtype)  # inputs, a row of zeros, and their complements
    flow = np.ones((n_slots + 2) * _LANES, examples.dtype)  # of slots, 1, and of a gate that several slots lead to
    of_all, of_several = n_slots * _LANES, (n_slots + 1) * _LANES
    total = np.empty(n_wanted * _LANES, examples.dtype)
    wanted_at = np.full(n_slots, -1)
    for w in range(n_wanted):
        if wanted[w] >= 0:
            wanted_at[wanted[w]] = w * _LANES
    for first in range(0, n_examples, _LANES):
        n_lanes = min(_LANES, n_examples - first)
        for variable in range(n_inputs):
            for lane in range(n_lanes):
                literal[variable * _LANES + lane] = examples[first + lane, variable]
        complements = (n_inputs + 1) * _LANES
        for at in range(complements):
            literal[complements + at] = one - literal[at]
        for cell in range(len(cell_start) - 1):
            total[:] = 0
            for position in range(cell_start[cell], cell_start[cell + 1]):
                for g in range(n_gates):
                    wire, stop = wire_start[g], wire_start[g + 1]
                    if wire == stop:
                        gate = of_all
                    elif wire + 1 == stop:
                        gate = wires[wire] * _LANES
                    else:
                        gate = of_several
                        for lane in range(0, _LANES, LANES):
                            value = load(flow, wires[wire] * _LANES + lane)
                            for w in range(wire + 1, stop):
                                value = add(value, load(flow, wires[w] * _LANES + lane))
                            store(flow, gate + lane, value)
                    for slot in range(slot_start[g], slot_start[g + 1]):
                        f, stop = factor_start[slot], factor_start[slot + 1]
                        at, to = slot * _LANES, wanted_at[slot]
                        if f == stop:
                            for lane in range(0, _LANES, LANES):
                                store(flow, at + lane, load(flow, gate + lane))
                        elif f + 1 == stop:
                            a = _row(factors[f], index, position, n_variables, n_inputs)
                            for lane in range(0, _LANES, LANES):
                                store(flow, at + lane, multiply(load(flow, gate + lane), load(literal, a + lane)))
                        else:
                            a = _row(factors[f], index, position, n_variables, n_inputs)
                            b = _row(factors[f + 1], index, position, n_variables, n_inputs)
                            for lane in range(0, _LANES, LANES):
                                value = multiply(load(flow, gate + lane), load(literal, a + lane))
                                store(flow, at + lane, multiply(value, load(literal, b + lane)))
                            for k in range(f + 2, stop):
                                a = _row(factors[k], index, position, n_variables, n_inputs)
                                for lane in range(0, _LANES, LANES):
                                    store(flow, at + lane, multiply(load(flow, at + lane), load(literal, a + lane)))
                        if to >= 0:
                            for lane in range(0, _LANES, LANES):
                                store(total, to + lane, add(load(total, to + lane), load(flow, at + lane)))
                for w in range(n_wanted):
                    if wanted[w] < 0:
                        a = _row(-1 - wanted[w], index, position, n_variables, n_inputs)
                        to = w * _LANES
                        for lane in range(0, _LANES, LANES):
                            store(total, to + lane, add(load(total, to + lane), load(literal, a + lane)))
            share = one / examples.dtype.type(cell_start[cell + 1] - cell_start[cell])
            for w in range(n_wanted):
                row = rows[cell * n_wanted + w]
                for lane in range(n_lanes):
                    value = total[w * _LANES + lane] * share
                    value = np.sqrt(value) if root else value
                    out[row, first + lane] = min(value * scale + half, most)


@njit(nogil=True, inline="always")
def _row(literal: int, index: NDArray[np.int32], position: int, n_variables: int, n_inputs: int) -> int:
    """Where the row of a literal of the circuit begins, among the inputs and their complements."""
    if literal < n_variables:
        return index[position, literal] * _LANES  # type: ignore[no-any-return]
    return (n_inputs + 1 + index[position, literal - n_variables]) * _LANES  # type: ignore[no-any-return]
