"""A small builder of ONNX graphs: nodes and constants with generated names, of the operators that a profile may use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from lcml.arrays import FloatArray
from lcml_export.rounding import FLOAT32, Precision, rounded

ML_DOMAIN = "ai.onnx.ml"

IndexArray = NDArray[np.int64]
"""Indices, as Gather takes them."""


@dataclass(frozen=True)
class Operators:
    """What a graph may use beyond the plain operators of ai.onnx.

    control_flow: Scan, for tiles of examples, and If; ml: of ai.onnx.ml ArrayFeatureExtractor, on a few examples many
    times faster than Gather, and LabelEncoder; scatter: ScatterElements that adds, for the sums over a gate's elements.
    """

    control_flow: bool = True
    ml: bool = True
    scatter: bool = False


class Graph:
    """Nodes and constants under construction; values are named by strings.

    The body of a control flow operator has its own constants: onnxruntime hands those of the outer graph in on every
    call, one by one, which costs more than a small graph takes to run.
    """

    def __init__(
        self,
        operators: Operators,
        owner: "Graph | None" = None,
        prefix: str = "",
        taken: frozenset[str] = frozenset(),
        precision: Precision = FLOAT32,
    ) -> None:
        self.operators, self.precision = operators, precision
        self._taken = taken  # names that are not to be made up
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._owner = owner or self
        self._prefix = prefix
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._counter = 0
        self.uses_ml = False

    def op(self, kind: str, *inputs: str, output: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        output = output or self.fresh(kind)
        attributes |= {"name": f"{output}_node", "domain": domain}
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        self._owner.uses_ml |= domain == ML_DOMAIN
        return output

    def take(self, source: str, index: Any, axis: int = 0) -> str:
        """The entries `index`, known now, of `source` along `axis`."""
        return self.op("Gather", source, self.constant(index, np.int64), axis=axis)

    def columns(self, source: str, index: Any) -> str:
        """The columns `index`, known now, of `source` (n, columns), numbers or text."""
        if not self.operators.ml:
            return self.take(source, index, axis=1)
        return self.op("ArrayFeatureExtractor", source, self.constant(index, np.int64), domain=ML_DOMAIN)

    def concat(self, parts: Sequence[str], axis: int = 0) -> str:
        """`parts` joined along `axis`; without a node where there is one."""
        return self.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]

    def constant(self, values: Any, dtype: Any = None) -> str:
        """The name of an initializer that holds `values`; equal ones are stored once."""
        with np.errstate(over="ignore"):  # an infinity here is what the self-check is for
            array = np.asarray(values, dtype=dtype)
        raw = repr(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes()
        key = (array.dtype.str, array.shape, raw)
        if key not in self._constants:
            self._constants[key] = self.fresh("constant")
            content = array.astype(object) if array.dtype.kind == "U" else np.ascontiguousarray(array)
            self.initializers.append(numpy_helper.from_array(content, self._constants[key]))
        return self._constants[key]

    def weights(self, values: FloatArray, axis: int = 0) -> str:
        """`values`, weight sets along `axis`, in the graph's precision: onnxruntime makes them float32 as it loads."""
        if self.precision == FLOAT32:
            return self.constant(values, np.float32)
        integers, scale = rounded(values, self.precision, axis)
        whole = self.op("Cast", self.constant(integers), to=onnx_type(np.float32))
        return self.op("Mul", whole, self.constant(scale, np.float32))

    def body(self, prefix: str) -> "Graph":
        """A graph for the body of a control flow operator."""
        return Graph(self.operators, self._owner, f"{self._prefix}{prefix}_", self._taken, self.precision)

    def fresh(self, kind: str) -> str:
        while True:
            self._owner._counter += 1
            if (name := f"{self._prefix}{kind.lower()}_{self._owner._counter}") not in self._taken:
                return name

    def as_body(self, inputs: list[onnx.ValueInfoProto], result: str, width: int) -> onnx.GraphProto:
        """The body that gives `result`, (rows, width) float32."""
        output = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, [None, width])
        return helper.make_graph(self.nodes, f"{self._prefix}body", inputs, [output], self.initializers)


def onnx_type(kind: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
