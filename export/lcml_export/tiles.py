"""Work on tiles of examples, so that a tile's rows stay in the cache whatever the batch, by the operator Scan."""

from collections.abc import Callable, Sequence

from onnx import helper

from lcml_export.graph import Graph

TILE = 128
"""Examples per tile at most, where an example has one position; the tiles of a batch are of equal size."""

_ALIGN = 16  # where tiles may be of TILE examples their sizes are multiples of this: whole vector registers

Body = Callable[[Graph, Sequence[str]], str]


def tiled(graph: Graph, body: Body, inputs: Sequence[tuple[str, int]], width: int, tile: int = TILE) -> str:
    """(n_examples, width) float32: `body` of the rows of `inputs`, tile by tile, or at once without control flow.

    inputs: name and ONNX element type of tensors (n_examples, columns) with columns known; body: builds the nodes
    that map tiles of the inputs, (tile, columns), to (tile, width) and returns the result's name; tile: most examples.
    """
    if not graph.operators.control_flow:
        return body(graph, [source for source, _ in inputs])
    n_examples = graph.op("Slice", graph.op("Shape", inputs[0][0]), *(graph.constant([i]) for i in (0, 1)))
    align = graph.constant([_ALIGN if tile == TILE else 1])
    zero, one = graph.constant([0]), graph.constant([1])
    n_tiles = graph.op("Max", _ceil_div(graph, n_examples, graph.constant([tile])), one)
    blocks = graph.op("Max", _ceil_div(graph, _ceil_div(graph, n_examples, n_tiles), align), one)
    size = graph.op("Mul", blocks, align)
    padding = graph.op("Sub", graph.op("Mul", n_tiles, size), n_examples)
    pads = graph.op("Concat", graph.constant([0, 0]), padding, zero, axis=0)
    shape = graph.op("Concat", n_tiles, size, graph.constant([-1]), axis=0)
    scanned = [graph.op("Reshape", graph.op("Pad", source, pads), shape) for source, _ in inputs]

    inner = graph.body("tile")
    tiles = [inner.fresh("input") for _ in inputs]
    result = inner.op("Identity", body(inner, tiles))
    values = [helper.make_tensor_value_info(t, kind, [None, None]) for t, (_, kind) in zip(tiles, inputs, strict=True)]
    stacked = graph.op("Scan", *scanned, body=inner.as_body(values, result, width), num_scan_inputs=len(inputs))
    rows = graph.op("Reshape", stacked, graph.constant([-1, width]))
    return graph.op("Slice", rows, zero, n_examples, zero)


def _ceil_div(graph: Graph, dividend: str, divisor: str) -> str:
    one = graph.constant([1])
    return graph.op("Div", graph.op("Sub", graph.op("Add", dividend, divisor), one), divisor)
