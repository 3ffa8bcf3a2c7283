"""Features of product circuits on a CUDA device: one thread per example and cell of a view, launched through cupy.

As `lcml.backend.kernels.products` on a CPU. A thread goes through the positions of its cell; a block's second number is
the cell. Inputs and scratch are laid out with the examples side by side, so that the threads of a warp, which all do
the same, read and write consecutive numbers. No thread waits for another. The same source compiles as C++ on a host,
where tests run it.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lcml.backend.base import Array, Places

_BLOCK = 64  # threads of a block; small, so that few examples still reach every multiprocessor
_SCRATCH = 1 << 30
_MOST_CELLS = 65535  # blocks that a grid may have in its second dimension

SOURCE = r"""
typedef long long Index;
typedef unsigned char Fixed8;
typedef unsigned short Fixed16;

// The literal that a variable of the circuit, or its complement, reads; x begins at the example
__device__ static inline Real literal(int number, int n_variables, const int* reads, const Real* x, Index n_examples) {
    if (number < n_variables) return x[reads[number] * n_examples];
    return 1 - x[reads[number - n_variables] * n_examples];
}

// x (n_inputs + 1, n_examples), the last row zeros; scratch (n_slots + n_wanted, threads of the grid), without the rows
// of n_wanted where no cell has two positions; out (rows, n_examples). All else as in lcml.backend.kernels.products.
extern "C" __global__ void lcml_products(
    const Real* __restrict__ x, Index n_examples, int n_cells, int n_variables, const int* __restrict__ index,
    const int* __restrict__ cell_start, const int* __restrict__ position_weight, int n_gates, int n_slots, int n_wanted,
    const int* __restrict__ wire_start, const int* __restrict__ wires, const int* __restrict__ slot_start,
    const int* __restrict__ factor_start, const int* __restrict__ factors, const int* __restrict__ wanted,
    const int* __restrict__ rows, int root, int scale, Real* scratch, Out* __restrict__ out) {
    const Index n_lanes = (Index)gridDim.x * blockDim.x, lane = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    const Index n_threads = n_lanes * gridDim.y;
    Real* const flow = scratch + blockIdx.y * n_lanes + lane;
    Real* const total = flow + n_slots * n_threads;
    for (int cell = (int)blockIdx.y; cell < n_cells; cell += (int)gridDim.y) {
        const int first = cell_start[cell], stop = cell_start[cell + 1];
        int of_cell = 0;
        for (int position = first; position < stop; ++position) of_cell += position_weight[position];
        const Real share = (Real)1 / (Real)of_cell;
        for (Index i = lane; i < n_examples; i += n_lanes) {
            for (int position = first; position < stop; ++position) {
                const int* const reads = index + (Index)position * n_variables;
                for (int g = 0; g < n_gates; ++g) {
                    Real gate = wire_start[g] == wire_start[g + 1] ? 1 : 0;
                    for (int w = wire_start[g]; w < wire_start[g + 1]; ++w) gate += flow[wires[w] * n_threads];
                    for (int slot = slot_start[g]; slot < slot_start[g + 1]; ++slot) {
                        Real value = gate;
                        for (int f = factor_start[slot]; f < factor_start[slot + 1]; ++f)
                            value *= literal(factors[f], n_variables, reads, x + i, n_examples);
                        flow[slot * n_threads] = value;
                    }
                }
                for (int w = 0; w < n_wanted; ++w) {
                    Real value = flow[wanted[w] * n_threads] * position_weight[position];
                    if (position > first) value += total[w * n_threads];
                    if (position + 1 < stop) {
                        total[w * n_threads] = value;
                    } else {
                        value *= share;
                        if (root) value = sqrt(value);
                        if (scale > 1) value = (value < 1 ? value : 1) * scale + (Real)0.5;
                        out[rows[(Index)cell * n_wanted + w] * n_examples + i] = (Out)value;
                    }
                }
            }
        }
    }
}
"""


class Grid(NamedTuple):
    """How a launch is cut: blocks of examples, cells worked on side by side, rows of scratch."""

    n_blocks: int
    n_cells: int
    n_rows: int

    @property
    def scratch_shape(self) -> tuple[int, int]:
        """(n_rows, n_threads)."""
        return self.n_rows, self.n_blocks * self.n_cells * _BLOCK


def grid(
    n_examples: int, n_positions: int, n_cells: int, n_slots: int, n_wanted: int, itemsize: int, most: int = _SCRATCH
) -> Grid:
    """A thread per example and cell unless that takes more than `most` bytes; then threads take several in turn."""
    n_rows = n_slots + (n_wanted if n_positions > n_cells else 0)
    most_blocks = max(1, most // (max(1, n_rows) * itemsize * _BLOCK))
    side_by_side = min(n_cells, most_blocks, _MOST_CELLS)
    return Grid(max(1, min(-(-n_examples // _BLOCK), most_blocks // side_by_side)), side_by_side, n_rows)


def product_features(
    xp: Any,
    view: Places,
    program: tuple[Array, ...],
    examples: Array,
    rows: Array,
    scale: int,
    out: Array,
    most: int = _SCRATCH,
) -> None:
    """As `lcml.backend.kernels.products.product_features`; program: the arrays from wire_start to wanted.

    All arrays are cupy's (module `xp`) and C-contiguous but for the examples; most: bytes of scratch.
    """
    assert out.flags.c_contiguous
    n_examples, n_inputs = examples.shape
    if not n_examples:
        return
    (index, cell_start, position_weight, root), (_, _, slot_start, factor_start, _, wanted) = view, program
    (n_positions, n_variables), n_cells = index.shape, len(cell_start) - 1
    n_gates, n_slots, n_wanted = len(slot_start) - 1, len(factor_start) - 1, len(wanted)
    x = xp.zeros((n_inputs + 1, n_examples), dtype=examples.dtype)
    x[:n_inputs] = examples.T
    cut = grid(n_examples, n_positions, n_cells, n_slots, n_wanted, x.dtype.itemsize, most)
    scratch = xp.empty(cut.scratch_shape, dtype=x.dtype)
    sizes = map(np.int32, (n_cells, n_variables))
    counts, pooling = map(np.int32, (n_gates, n_slots, n_wanted)), map(np.int32, (root, scale))
    places = index, cell_start, position_weight
    arguments = (x, np.int64(n_examples), *sizes, *places, *counts, *program, rows, *pooling, scratch, out)
    _kernel(xp, x.dtype.name, out.dtype.name)((cut.n_blocks, cut.n_cells), (_BLOCK,), arguments)


_TYPES = {"float32": "float", "float64": "double", "uint8": "Fixed8", "uint16": "Fixed16"}


@cache
def _kernel(xp: Any, real: str, out: str) -> Any:
    options = f"-DReal={_TYPES[real]}", f"-DOut={_TYPES[out]}"
    return xp.RawModule(code=SOURCE, options=options).get_function("lcml_products")
