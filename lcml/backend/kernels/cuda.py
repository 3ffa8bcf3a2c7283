"""The passes of `lcml.passes.flows` over any circuit on a CUDA device: one thread per example, launched through cupy.

Arrays are laid out (row, example), so that the threads of a warp, which all do the same, read and write side by side.
No thread waits for another. The same source compiles as C++ on a host, where tests run it.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
Structure = tuple[Array, Array, Array, bool]
"""or_start, primes and subs as `pack` makes them, and whether the circuit is a tautology."""

_BLOCK = 64  # threads of a block; small, so that few examples still reach every multiprocessor
_SCRATCH = 4 << 30

_FIRST = 1 << 30

SOURCE = r"""
#define FIRST (1 << 30)  // set in a child whose derivative nothing has been added to yet

typedef long long Index;

// Pr(node): that of a literal from the inputs x (n_variables, n_examples), that of a gate from up (n_gates, n_threads)
__device__ static inline Real probability(int node, int n, const Real* x, Index n_examples, Index i, const Real* up,
                                          Index n_threads, Index t) {
    if (node < n) return x[node * n_examples + i];
    if (node < 2 * n) return 1 - x[(node - n) * n_examples + i];
    return up[(node - 2 * n) * n_threads + t];
}

__device__ static inline void push(int child, int n, int is_tautology, Real value, Real* down, Index n_threads,
                                   Index t) {
    int node = child & ~FIRST;
    if (node < 2 * n && is_tautology) return;
    Real* place = down + node * n_threads + t;
    *place = child & FIRST ? value : *place + value;
}

// Flow of element e: store it, or add it to the sums of all sets
#ifdef N_SETS
#define RESULT(row, flow)                                            \
    {                                                                \
        Real value = flow;                                           \
        for (int k = 0; k < N_SETS; ++k) sums[k] += weights[(Index)(row) * N_SETS + k] * value; \
    }
#else
#define RESULT(row, flow) out[(row) * n_examples + i] = flow;
#endif

// up (n_gates, n_threads), down (2 n + n_gates, n_threads): scratch. weights (n_flows, N_SETS).
// out: flows (2 n + n_elements, n_examples), or where N_SETS is defined weighted sums (N_SETS, n_examples).
// total (n_examples): Pr(root); where it is 0, out is NaN.
extern "C" __global__ void lcml_pass(const Real* __restrict__ x, Index n_examples, int n, int n_gates,
                                     const int* __restrict__ or_start, const int* __restrict__ primes,
                                     const int* __restrict__ subs, int is_tautology, Real* __restrict__ up,
                                     Real* __restrict__ down, const Real* __restrict__ weights,
                                     Real* __restrict__ out, Real* __restrict__ total) {
    const Index n_threads = (Index)gridDim.x * blockDim.x, t = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    for (Index i = t; i < n_examples; i += n_threads) {
#ifdef N_SETS
        Real sums[N_SETS];
        for (int k = 0; k < N_SETS; ++k) sums[k] = 0;
#endif
        Real root = 1;
        for (int g = 0; g < n_gates; ++g) {
            root = 0;
            for (int e = or_start[g]; e < or_start[g + 1]; ++e)
                root += probability(primes[e] & ~FIRST, n, x, n_examples, i, up, n_threads, t) *
                        probability(subs[e] & ~FIRST, n, x, n_examples, i, up, n_threads, t);
            up[g * n_threads + t] = root;
        }
        total[i] = root;
        if (root == 0) root = root / root;
        if (!is_tautology)
            for (int literal = 0; literal < 2 * n; ++literal) down[literal * n_threads + t] = 0;
        for (int g = n_gates - 1; g >= 0; --g) {
            const Real c = g == n_gates - 1 ? 1 : down[(2 * n + g) * n_threads + t];
            for (int e = or_start[g + 1] - 1; e >= or_start[g]; --e) {  // the order that FIRST is set for
                const Real p = probability(primes[e] & ~FIRST, n, x, n_examples, i, up, n_threads, t);
                const Real s = probability(subs[e] & ~FIRST, n, x, n_examples, i, up, n_threads, t);
                push(primes[e], n, is_tautology, c * s, down, n_threads, t);
                push(subs[e], n, is_tautology, c * p, down, n_threads, t);
                RESULT(2 * n + e, is_tautology ? c * p * s : c * p * s / root)
            }
        }
        for (int literal = 0; literal < 2 * n; ++literal) {
            const Real p = probability(literal, n, x, n_examples, i, up, n_threads, t);
            RESULT(literal, is_tautology ? p : p * down[literal * n_threads + t] / root)
        }
#ifdef N_SETS
        for (int k = 0; k < N_SETS; ++k) out[k * n_examples + i] = sums[k];
#endif
    }
}
"""


def pack(
    or_start: NDArray[np.int32], elem_prime: NDArray[np.int32], elem_sub: NDArray[np.int32], n_variables: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The circuit's arrays with the gates marked that the down pass, from the last element to the first, meets for the
    first time: what is pushed to those replaces what scratch holds."""
    order = np.stack([elem_sub, elem_prime], axis=1).ravel()[::-1]  # the prime of the last element, its sub, ...
    nodes, first = np.unique(order, return_index=True)
    marked = order.copy()
    marked[first[nodes >= 2 * n_variables]] |= _FIRST
    pairs = marked[::-1].reshape(-1, 2)
    return np.asarray(or_start, dtype=np.int32), np.ascontiguousarray(pairs[:, 1]), np.ascontiguousarray(pairs[:, 0])


def scratch_shape(structure: Structure, x: Array, most_bytes: int = _SCRATCH) -> tuple[int, int]:
    """(n_rows, n_threads) of the scratch that the kernels need for x (n_variables, n_examples).

    There is a thread per example unless that takes more than `most_bytes`; then threads take several in turn.
    """
    n_rows = 2 * x.shape[0] + 2 * (len(structure[0]) - 1)
    most = most_bytes // (n_rows * x.dtype.itemsize)
    return n_rows, _BLOCK * max(1, min(most // _BLOCK, -(-x.shape[1] // _BLOCK)))


def flows_into(xp: Any, structure: Structure, x: Array, scratch: Array, out: Array) -> Array:
    """Write the flows of x (n_variables, n_examples) to out (2 n_variables + n_elements, n_examples), NaN where
    Pr(root) is 0; returns Pr(root) (n_examples,).

    All arrays are cupy's (module `xp`) and C-contiguous; scratch as `scratch_shape` says.
    """
    return _launch(xp, _kernel(xp, _real(x), None), structure, x, scratch, x, out)


def logits_into(xp: Any, structure: Structure, x: Array, weights: Array, scratch: Array, out: Array) -> Array:
    """As `flows_into`, weighted by weights (n_flows, n_sets): out (n_sets, n_examples)."""
    return _launch(xp, _kernel(xp, _real(x), weights.shape[1]), structure, x, scratch, weights, out)


def _launch(xp: Any, kernel: Any, structure: Structure, x: Array, scratch: Array, weights: Array, out: Array) -> Array:
    or_start, primes, subs, is_tautology = structure
    n_variables, n_examples = x.shape
    n_gates, total = len(or_start) - 1, xp.empty(n_examples, dtype=x.dtype)
    if n_examples:
        sizes = np.int64(n_examples), np.int32(n_variables), np.int32(n_gates)
        circuit = or_start, primes, subs, np.int32(is_tautology)
        up, down = scratch[:n_gates], scratch[n_gates:]
        blocks = scratch.shape[1] // _BLOCK
        kernel((blocks,), (_BLOCK,), (x, *sizes, *circuit, up, down, weights, out, total))
    return total


def _real(x: Array) -> str:
    return "float" if x.dtype == np.float32 else "double"


@cache
def _kernel(xp: Any, real: str, n_sets: int | None) -> Any:
    sets = () if n_sets is None else (f"-DN_SETS={n_sets}",)
    return xp.RawModule(code=SOURCE, options=(f"-DReal={real}", *sets)).get_function("lcml_pass")
