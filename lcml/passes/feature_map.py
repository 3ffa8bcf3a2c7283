"""The features of one part of a model: which flows, at which places of its view, and how they are computed.

A feature is the flow of a literal or element at one place of the view: the weighted mean over the windows of a cell,
its square root where the view says so; for a view of the whole example simply the flow.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lcml.backend import Array, Backend
from lcml.backend.base import Places, Program
from lcml.circuits.circuit import Circuit
from lcml.circuits.views import SelectedView, View, WindowView, windows
from lcml.passes.flows import example_flows, weighted_flows
from lcml.passes.plan import FlowPlan, compile_plan
from lcml.passes.products import NO_PAIRS, compile_products

Numbers = NDArray[np.integer]

FIXED_POINT: Mapping[str, tuple[str, int]] = {"fixed8": ("uint8", 255), "fixed16": ("uint16", 65535)}
"""Of every precision in fixed point: how features are kept, and what for a feature of 1."""


def inputs_read(view: View) -> tuple[int, int]:
    """The first input that a view reads, and the one behind the last; n_inputs is no input but stands for 0."""
    inputs = view.index[view.index < view.n_inputs]
    stop = int(inputs.max(initial=-1)) + 1
    return int(inputs.min(initial=stop)), stop


class FeatureMap:
    """Computes the features of one part that belong to `wanted`, numbers of literals and, behind them, elements, and to
    `pairs` (2, n_pairs), elements and variables: those that splits of the elements on the variables would give.

    They are (n_cells * (n_wanted + n_pairs),) rows, cell by cell. There are two ways to them: the passes of
    `lcml.passes.flows`, position by position, which compute the flows of the whole circuit at once, and, for product
    circuits, the backend's kernel, which computes what is wanted in place. Where a backend has both, `values` of a view
    of the whole example, mostly of all flows, takes the passes (measured in numba six times as fast for all flows,
    twice for half), and `write` the kernel: of what a round of splits adds to a store, a tenth, it is four times as
    fast.
    """

    def __init__(
        self, view: View, circuit: Circuit, wanted: Numbers, backend: Backend, pairs: Numbers = NO_PAIRS
    ) -> None:
        self.view, self.circuit, self.backend = view, circuit, backend
        self.n_rows = view.n_cells * (len(wanted) + pairs.shape[1])
        self._kernel = backend.product_features if circuit.is_product else None
        self._features = wanted, pairs
        self._wanted = backend.asarray(wanted)
        self._pairs = [*map(backend.asarray, (circuit.n_literals + pairs[0], pairs[1]))] if pairs.size else []
        self._is_whole = not isinstance(view, WindowView)
        self._selected = backend.asarray(view.index[0]) if isinstance(view, SelectedView) else None
        self._wants_all = np.array_equal(wanted, np.arange(circuit.n_literals + circuit.n_elements))

    def write(self, examples: Array, out: Array, rows: Numbers, *, scale: int = 1) -> None:
        """Put the features of encoded `examples` (n_examples, n_inputs) into out[rows], with a `scale` above 1, of
        `FIXED_POINT`, as the integers nearest to scale times them."""
        if self._kernel is not None:
            rows_of_out, (first, stop) = self.backend.asarray(rows, dtype=np.int32), self._read
            self._kernel(*self._on_device, examples[:, first:stop], rows_of_out, scale, out)
            return
        values = self._by_passes(examples)
        if scale > 1:
            values = self.backend.xp.astype(self.backend.xp.clip(values, 0, 1) * scale + 0.5, out.dtype)
        self.backend.put(out, rows, values)

    def values(self, examples: Array) -> Array:
        """(n_rows, n_examples) the features, of the type of `examples`."""
        if self._kernel is None or (self._is_whole and self.backend.flows is not None):
            return self._by_passes(examples)
        out = self.backend.empty((self.n_rows, examples.shape[0]), examples.dtype)
        self.write(examples, out, np.arange(self.n_rows))
        return out

    def weighted_by(self, weights: Array) -> Callable[[Array], Array]:
        """The function from examples to weights @ values(examples), (n_sets, n_examples); for weights (n_sets, n_rows).

        Of a view of the whole example without the features, where the backend has a kernel.
        """
        if not self._is_whole or self.backend.weighted_flows is None:
            return lambda examples: weights @ self.values(examples)
        plan, n_flows = self._plan, self.circuit.n_literals + self.circuit.n_elements
        of_flows = self.backend.xp.zeros((weights.shape[0], n_flows), dtype=weights.dtype)
        of_flows[:, self._wanted] = weights
        return lambda examples: weighted_flows(plan, self._shown(examples), of_flows)

    @cached_property
    def _plan(self) -> FlowPlan:
        return compile_plan(self.circuit, self.backend)

    @cached_property
    def _read(self) -> tuple[int, int]:
        return inputs_read(self.view)

    @cached_property
    def _on_device(self) -> tuple[Places, Program]:
        """What the kernel takes: the view, among the inputs that it reads, and the program."""
        asarray, view, (first, stop) = self.backend.asarray, self.view, self._read
        program = compile_products(self.circuit, *self._features)
        index = np.minimum(view.index, stop) - first
        places = asarray(index), asarray(view.cell_start), asarray(view.position_weight), view.root
        return places, tuple(map(asarray, program))

    def _by_passes(self, examples: Array) -> Array:
        xp, view = self.backend.xp, self.view
        if not isinstance(view, WindowView):
            shown = self._shown(examples)
            return self._of_flows(example_flows(self._plan, shown), shown)
        shown = windows(view, examples, xp)
        cells = []
        for first, stop in pairwise(view.cell_start.tolist()):
            total = None
            weights = view.position_weight[first:stop].tolist()
            for position, weight in enumerate(weights, first):
                values = self._of_flows(example_flows(self._plan, shown[position, ...]), shown[position, ...])
                total = values * weight if total is None else total + values * weight
            cells.append(total / sum(weights))
        pooled = xp.concat(cells, axis=0)
        return xp.sqrt(pooled) if view.root else pooled

    def _shown(self, examples: Array) -> Array:
        """What variables read of encoded examples, under a view of one position."""
        if self._selected is None:
            return examples
        xp = self.backend.xp
        return xp.take(xp.concat([examples, xp.zeros_like(examples[:, :1])], axis=1), self._selected, axis=1)

    def _of_flows(self, all_flows: Array, read: Array) -> Array:
        """What is wanted, and the pairs' products, of flows (n_flows, n_examples) and what variables read."""
        xp = self.backend.xp
        wanted = all_flows if self._wants_all else xp.take(all_flows, self._wanted, axis=0)
        if not self._pairs:
            return wanted
        flow, variable = self._pairs
        return xp.concat([wanted, xp.take(all_flows, flow, axis=0) * xp.take(read, variable, axis=1).T], axis=0)
