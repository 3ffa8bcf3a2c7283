"""The passes of `lcml.passes.flows` over any circuit on a CPU, compiled by numba.

One call computes a chunk of examples on one core and leaves the interpreter's lock alone: threads run it side by side.
LANES examples are taken together, up pass, down pass and results in one go, with every node's numbers of the same
LANES examples side by side in scratch that a core's caches hold:

    up    Pr(n) of node n, the literals first                       (n_nodes, LANES)
    down  c(n) = dPr(root)/dPr(n), pushed from the root downwards   (n_nodes, LANES)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.backend.kernels.compiled import compiled
from lcml.backend.kernels.lanes import LANES, STREAM_BYTES, add, divide, load, multiply, spread, store, stream

Ints = NDArray[np.int32]
Real = NDArray[Any]

_TILE = 64  # flows that are multiplied by weights at a time
_SETS = 4  # weight sets whose sums stay in registers at once


def aligned_empty(shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    """np.empty((rows, columns)) whose first number stands where a cache line begins."""
    size, item = shape[0] * shape[1], np.dtype(dtype).itemsize
    buffer = np.empty(size + STREAM_BYTES // item, dtype)
    first = -buffer.ctypes.data % STREAM_BYTES // item
    return buffer[first : first + size].reshape(shape)


@compiled()
def _up_pass(examples, first, or_start, elem_prime, elem_sub, up):  # type: ignore[no-untyped-def]
    """Pr(n) of all nodes for the examples from `first`; lanes behind the last example repeat it."""
    n_examples, n_variables = examples.shape
    one = up.dtype.type(1)
    for lane in range(LANES):
        example = min(first + lane, n_examples - 1)
        for variable in range(n_variables):
            up[variable * LANES + lane] = examples[example, variable]
    for i in range(n_variables * LANES):
        up[n_variables * LANES + i] = one - up[i]
    for gate in range(len(or_start) - 1):
        element = or_start[gate]
        total = multiply(load(up, elem_prime[element] * LANES), load(up, elem_sub[element] * LANES))
        for element in range(or_start[gate] + 1, or_start[gate + 1]):
            total = add(total, multiply(load(up, elem_prime[element] * LANES), load(up, elem_sub[element] * LANES)))
        store(up, (2 * n_variables + gate) * LANES, total)


@compiled()
def _scratch(n_rows, like):  # type: ignore[no-untyped-def]
    return np.empty(n_rows * LANES, like.dtype)


@compiled()
def _start_down(down, first_pushed):  # type: ignore[no-untyped-def]
    """c(root) = 1, and 0 so far of the other nodes from `first_pushed`."""
    down[first_pushed * LANES :] = 0
    down[len(down) - LANES :] = 1


@compiled()
def _contradiction(up, first, n_examples):  # type: ignore[no-untyped-def]
    """The first example with Pr(root) = 0, or -1; its Pr(root) becomes NaN."""
    found = -1
    for lane in range(LANES - 1, -1, -1):
        place = len(up) - LANES + lane
        if up[place] == 0:
            up[place] = np.nan
            found = min(first + lane, n_examples - 1)
    return found


@compiled()
def _down_pass(  # type: ignore[no-untyped-def]
    first_gate, stop_gate, or_start, elem_prime, elem_sub, is_tautology, up, down, out, place, stride, streams
):
    """Take the gates stop_gate - 1 .. first_gate, push their derivatives, write flows to out[place + element * stride].

    All of it in one function, for numba counts references to the arrays that a call passes, and in few variables.
    """
    n_nodes = len(up) // LANES
    n_literals = n_nodes - len(or_start) + 1
    first_pushed = n_literals if is_tautology else 0  # literals need a derivative where their flow is no probability
    total = load(up, (n_nodes - 1) * LANES)
    for gate in range(stop_gate - 1, first_gate - 1, -1):
        c = load(down, (n_literals + gate) * LANES)
        for element in range(or_start[gate], or_start[gate + 1]):
            prime, sub = elem_prime[element], elem_sub[element]
            p_prime, p_sub = load(up, prime * LANES), load(up, sub * LANES)
            to_prime = multiply(c, p_sub)
            if prime >= first_pushed:
                store(down, prime * LANES, add(load(down, prime * LANES), to_prime))
            if sub >= first_pushed:
                store(down, sub * LANES, add(load(down, sub * LANES), multiply(c, p_prime)))
            flow = multiply(to_prime, p_prime)
            if not is_tautology:
                flow = divide(flow, total)
            if streams:
                stream(out, place + element * stride, flow)
            else:
                store(out, place + element * stride, flow)


@compiled()
def _weigh(rows, n_rows, weights, first_weight, n_flows, n_sets, sums):  # type: ignore[no-untyped-def]
    """sums (n_sets, LANES) += weights[:, first_weight : + n_rows] @ rows (n_rows, LANES)."""
    for k in range(0, n_sets, _SETS):
        w0 = k * n_flows + first_weight  # sets behind the last one repeat it and are not read
        w1 = min(k + 1, n_sets - 1) * n_flows + first_weight
        w2 = min(k + 2, n_sets - 1) * n_flows + first_weight
        w3 = min(k + 3, n_sets - 1) * n_flows + first_weight
        s0, s1 = load(sums, k * LANES), load(sums, (k + 1) * LANES)
        s2, s3 = load(sums, (k + 2) * LANES), load(sums, (k + 3) * LANES)
        for row in range(n_rows):
            flow = load(rows, row * LANES)
            s0 = add(s0, multiply(spread(weights, w0 + row), flow))
            s1 = add(s1, multiply(spread(weights, w1 + row), flow))
            s2 = add(s2, multiply(spread(weights, w2 + row), flow))
            s3 = add(s3, multiply(spread(weights, w3 + row), flow))
        store(sums, k * LANES, s0)
        store(sums, (k + 1) * LANES, s1)
        store(sums, (k + 2) * LANES, s2)
        store(sums, (k + 3) * LANES, s3)


@compiled()
def _flows(examples, or_start, elem_prime, elem_sub, is_tautology, out):  # type: ignore[no-untyped-def]
    n_examples, n_variables = examples.shape
    n_gates, n_literals, width = len(or_start) - 1, 2 * n_variables, out.shape[1]
    up, down, flat = _scratch(n_literals + n_gates, out), _scratch(n_literals + n_gates, out), out.reshape(-1)
    aligned = out.ctypes.data % STREAM_BYTES == 0 and width * out.itemsize % STREAM_BYTES == 0
    contradiction = -1
    for begin in range(0, n_examples, LANES):
        first = max(min(begin, n_examples - LANES), 0)  # the last block reaches back into the one before
        streams = aligned and first * out.itemsize % STREAM_BYTES == 0
        _up_pass(examples, first, or_start, elem_prime, elem_sub, up)
        if not is_tautology and contradiction < 0:
            contradiction = _contradiction(up, first, n_examples)
        if n_gates:
            _start_down(down, n_literals if is_tautology else 0)
            place = n_literals * width + first
            _down_pass(0, n_gates, or_start, elem_prime, elem_sub, is_tautology, up, down, flat, place, width, streams)
        total = load(up, len(up) - LANES)
        for literal in range(n_literals):
            flow = load(up, literal * LANES)
            if not is_tautology:
                flow = divide(multiply(flow, load(down, literal * LANES)), total)
            if streams:
                stream(flat, literal * width + first, flow)
            else:
                store(flat, literal * width + first, flow)
    return contradiction


@compiled()
def flows_into(examples: Real, or_start: Ints, elem_prime: Ints, elem_sub: Ints, is_tautology: bool, out: Real) -> int:
    """Write the flows of all literals, then of all elements, see lcml.passes.flows.flows; the circuit's arrays as they
    are.

    examples (n_examples, n_variables); out (2 n_variables + n_elements, n_examples) of the same type, C order, best
    from `aligned_empty`. Returns the first example with Pr(root) = 0, whose flows are NaN, or -1.
    """
    n_examples = len(examples)
    if n_examples == 0:
        return -1
    if n_examples < LANES:
        block = np.empty((len(out), LANES), out.dtype)
        contradiction: int = _flows(examples, or_start, elem_prime, elem_sub, is_tautology, block)
        out[:] = block[:, :n_examples]
    else:
        contradiction = _flows(examples, or_start, elem_prime, elem_sub, is_tautology, out)
    return contradiction


@compiled()
def logits_into(
    examples: Real, or_start: Ints, elem_prime: Ints, elem_sub: Ints, is_tautology: bool, weights: Real, out: Real
) -> int:
    """Write the weighted sums of flows, without keeping these: out (n_examples, n_sets) for `weights` (n_sets, n_flows)
    in C order, of the type of `out`; the rest as in `flows_into`."""
    n_examples, n_variables = examples.shape
    n_sets, n_flows = weights.shape
    n_gates, n_literals = len(or_start) - 1, 2 * n_variables
    up, down = _scratch(n_literals + n_gates, out), _scratch(n_literals + n_gates, out)
    flat_weights = weights.reshape(-1)
    room = _TILE
    for gate in range(n_gates):
        room = max(room, or_start[gate + 1] - or_start[gate])
    tile, sums = _scratch(room, out), _scratch(n_sets + _SETS, out)
    contradiction = -1
    for first in range(0, n_examples, LANES):
        _up_pass(examples, first, or_start, elem_prime, elem_sub, up)
        if not is_tautology and contradiction < 0:
            contradiction = _contradiction(up, first, n_examples)
        sums[:] = 0
        if n_gates:
            _start_down(down, n_literals if is_tautology else 0)
        stop_gate = n_gates
        while stop_gate > 0:
            gate = stop_gate - 1
            while gate > 0 and or_start[stop_gate] - or_start[gate - 1] <= room:
                gate -= 1
            place = -or_start[gate] * LANES
            _down_pass(
                gate, stop_gate, or_start, elem_prime, elem_sub, is_tautology, up, down, tile, place, LANES, False
            )
            n_rows = or_start[stop_gate] - or_start[gate]
            _weigh(tile, n_rows, flat_weights, n_literals + or_start[gate], n_flows, n_sets, sums)
            stop_gate = gate
        if not is_tautology:
            total = load(up, len(up) - LANES)
            for literal in range(n_literals):
                flow = multiply(load(up, literal * LANES), load(down, literal * LANES))
                store(down, literal * LANES, divide(flow, total))
        _weigh(up if is_tautology else down, n_literals, flat_weights, 0, n_flows, n_sets, sums)
        for lane in range(min(LANES, n_examples - first)):
            for k in range(n_sets):
                out[first + lane, k] = sums[k * LANES + lane]
    return contradiction
