"""Product circuits from the root down: flows without an up pass.

In a circuit grown by splits every or gate's probability is the product of the literals it implies. So the flow of an
element is its gate's flow times the literals that the element implies and its gate does not, and a gate's flow is the
sum of the flows of the elements that lead to it, 1 at the root.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import IntArray, frozen
from lcml.circuits.circuit import Circuit
from lcml.circuits.collector import without_collector

NO_PAIRS = np.empty((2, 0), dtype=np.int64)
"""(2, n_pairs) elements and variables: none."""


class ProductProgram(NamedTuple):
    """What must be computed for some features of a product circuit, gates from the root down; as kernels take it.

    Gate g sums the slots wires[wire_start[g]:wire_start[g+1]] and feeds the slots slot_start[g]:slot_start[g+1], one
    per element needed; slot s multiplies its gate's flow by the literals factors[factor_start[s]:factor_start[s+1]].
    The first gate, which no slot leads to, feeds those of literals asked for. wanted (n_wanted,): the slot of every
    feature asked for; behind them the slots of pairs, which belong to gates that only their elements lead to.
    """

    wire_start: IntArray
    wires: IntArray
    slot_start: IntArray
    factor_start: IntArray
    factors: IntArray
    wanted: IntArray


@without_collector()
def compile_products(
    circuit: Circuit, features: NDArray[np.integer], pairs: NDArray[np.integer] = NO_PAIRS
) -> ProductProgram:
    """The program for `features`, numbers of literals and, behind them, elements of a product circuit, each once.

    pairs (2, n_pairs): elements and variables, whose products are computed too.
    """
    n_literals, implied, leads_to = circuit.n_literals, circuit.implied, circuit.leads_to
    prime, sub, or_start = circuit.elem_prime.tolist(), circuit.elem_sub.tolist(), circuit.or_start.tolist()
    is_needed = np.zeros(circuit.n_elements, dtype=bool)
    is_needed[features[features >= n_literals] - n_literals] = True
    is_needed[pairs[0]] = True
    needed = is_needed.tolist()
    for gate in range(circuit.n_or_gates):  # from below: what leads to a gate that is needed is needed
        if any(needed[or_start[gate] : or_start[gate + 1]]):
            for element in leads_to[n_literals + gate]:
                needed[element] = True
    slots = [-1] * (n_literals + circuit.n_elements)  # of literals and elements
    factors: list[int] = features[features < n_literals].tolist()
    for number, literal in enumerate(factors):
        slots[literal] = number
    wire_start, slot_start, factor_start = [0, 0], [0, len(factors)], [*range(len(factors) + 1)]
    wires: list[int] = []
    for gate in reversed(range(circuit.n_or_gates)):
        elements = [element for element in range(or_start[gate], or_start[gate + 1]) if needed[element]]
        if not elements:
            continue
        wires += leads_to[n_literals + gate]
        for element in elements:
            slots[n_literals + element] = len(factor_start) - 1
            factors += sorted((implied[prime[element]] | implied[sub[element]]) - implied[n_literals + gate])
            factor_start.append(len(factors))
        wire_start.append(len(wires))
        slot_start.append(len(factor_start) - 1)
    slot, order = np.array(slots), np.argsort(pairs[0], kind="stable")
    with_variables, first = np.unique(pairs[0][order], return_index=True)
    of_pair = np.empty(pairs.shape[1], dtype=np.int64)
    of_pair[order] = len(factor_start) - 1 + np.arange(len(order))
    slot_start += (len(factor_start) - 1 + np.append(first, len(order))[1:]).tolist()
    wires += with_variables.tolist()
    wire_start += range(wire_start[-1] + 1, len(wires) + 1)
    factor_start += range(len(factors) + 1, len(factors) + len(order) + 1)
    factors += pairs[1][order].tolist()
    slots_of_wires = slot[n_literals + np.array(wires, dtype=np.int64)]
    all_wanted = np.concatenate([slot[features], of_pair])
    arrays = wire_start, slots_of_wires, slot_start, factor_start, factors, all_wanted
    return ProductProgram(*map(frozen, arrays))
