"""Features of product circuits on a CPU, compiled by numba.

One call computes a chunk of examples on one core and leaves the interpreter's lock alone: threads run it side by side.
Lanes of examples are worked on together, small enough for the flows of a circuit's elements to stay in the cache.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lcml.backend.kernels.compiled import compiled

_LANES = 128


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
    n_gates, n_wanted = len(slot_start) - 1, len(wanted)
    one = examples.dtype.type(1)
    half, most = (0.5, scale) if scale > 1 else (0.0, np.inf)  # rounding can put a sum of flows above 1
    literal = np.zeros((2 * n_inputs + 2, _LANES), examples.dtype)  # inputs, a row of zeros, and their complements
    flow = np.empty((slot_start[-1], _LANES), examples.dtype)
    gate = np.empty(_LANES, examples.dtype)
    total = np.empty((n_wanted, _LANES), examples.dtype)
    for first in range(0, n_examples, _LANES):
        n_lanes = min(_LANES, n_examples - first)
        for variable in range(n_inputs):
            for lane in range(n_lanes):
                literal[variable, lane] = examples[first + lane, variable]
        for variable in range(n_inputs + 1):
            for lane in range(_LANES):
                literal[n_inputs + 1 + variable, lane] = one - literal[variable, lane]
        for cell in range(len(cell_start) - 1):
            total[:] = 0
            for position in range(cell_start[cell], cell_start[cell + 1]):
                for g in range(n_gates):
                    n_wires = wire_start[g + 1] - wire_start[g]
                    if n_wires == 0:
                        for lane in range(_LANES):
                            gate[lane] = one
                    else:
                        a = wires[wire_start[g]]
                        for lane in range(_LANES):
                            gate[lane] = flow[a, lane]
                        for w in range(wire_start[g] + 1, wire_start[g + 1]):
                            a = wires[w]
                            for lane in range(_LANES):
                                gate[lane] += flow[a, lane]
                    for slot in range(slot_start[g], slot_start[g + 1]):
                        first_factor, n_factors = factor_start[slot], factor_start[slot + 1] - factor_start[slot]
                        if n_factors == 0:
                            for lane in range(_LANES):
                                flow[slot, lane] = gate[lane]
                        elif n_factors == 2:
                            a = _row(factors[first_factor], index, position, n_variables, n_inputs)
                            b = _row(factors[first_factor + 1], index, position, n_variables, n_inputs)
                            for lane in range(_LANES):
                                flow[slot, lane] = gate[lane] * literal[a, lane] * literal[b, lane]
                        else:
                            a = _row(factors[first_factor], index, position, n_variables, n_inputs)
                            for lane in range(_LANES):
                                flow[slot, lane] = gate[lane] * literal[a, lane]
                            for f in range(first_factor + 1, first_factor + n_factors):
                                a = _row(factors[f], index, position, n_variables, n_inputs)
                                for lane in range(_LANES):
                                    flow[slot, lane] *= literal[a, lane]
                for w in range(n_wanted):
                    if wanted[w] >= 0:
                        a = wanted[w]
                        for lane in range(_LANES):
                            total[w, lane] += flow[a, lane]
                    else:
                        a = _row(-1 - wanted[w], index, position, n_variables, n_inputs)
                        for lane in range(_LANES):
                            total[w, lane] += literal[a, lane]
            share = one / examples.dtype.type(cell_start[cell + 1] - cell_start[cell])
            for w in range(n_wanted):
                row = rows[cell * n_wanted + w]
                if root:
                    for lane in range(_LANES):
                        total[w, lane] = np.sqrt(total[w, lane] * share)
                else:
                    for lane in range(_LANES):
                        total[w, lane] *= share
                for lane in range(n_lanes):
                    out[row, first + lane] = min(total[w, lane] * scale + half, most)


@njit(nogil=True, inline="always")
def _row(literal: int, index: NDArray[np.int32], position: int, n_variables: int, n_inputs: int) -> int:
    """The row of a literal of the circuit among the inputs and their complements."""
    if literal < n_variables:
        return index[position, literal]  # type: ignore[no-any-return]
    return n_inputs + 1 + index[position, literal - n_variables]  # type: ignore[no-any-return]
