"""A small builder of ONNX graphs: nodes and constants with generated names."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

ML_DOMAIN = "ai.onnx.ml"


class Graph:
    """Nodes and constants under construction; values are named by strings.

    The body of a control flow operator has its own constants: onnxruntime hands those of the outer graph in on every
    call, one by one, which costs more than a small graph takes to run.
    """

    def __init__(self, owner: "Graph | None" = None, prefix: str = "") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._owner = owner or self
        self._prefix = prefix
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.initializers: list[onnx.TensorProto] = []
        if owner is None:
            self._counter = 0
            self._domains: set[str] = set()

    def op(self, kind: str, *inputs: str, output: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        return self.ops(kind, *inputs, outputs=(output or self.fresh(kind),), domain=domain, **attributes)[0]

    def ops(
        self, kind: str, *inputs: str, outputs: tuple[str, ...], domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """Add a node with several outputs."""
        name = f"{outputs[0]}_node"
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), name=name, domain=domain, **attributes))
        self._owner._domains.add(domain)
        return outputs

    def constant(self, values: Any, dtype: Any = None) -> str:
        """The name of an initializer that holds `values`; equal ones are stored once."""
        with np.errstate(over="ignore"):  # an infinity here is what the self-check is for
            array = np.asarray(values, dtype=dtype)
        raw = repr(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes()
        key = (array.dtype.str, array.shape, raw)
        if key not in self._constants:
            self._constants[key] = self.fresh("constant")
            self.initializers.append(_tensor(array, self._constants[key]))
        return self._constants[key]

    def domains(self) -> frozenset[str]:
        """The operator sets used, here and in bodies."""
        return frozenset(self._owner._domains)

    def body(self, prefix: str) -> "Graph":
        """A graph for the body of a control flow operator."""
        return Graph(self._owner, f"{self._prefix}{prefix}_")

    def fresh(self, kind: str) -> str:
        self._owner._counter += 1
        return f"{self._prefix}{kind.lower()}_{self._owner._counter}"

    def as_body(self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, f"{self._prefix}body", inputs, outputs, self.initializers)


def onnx_type(kind: Any) -> int:
    """The ONNX element type of a numpy type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def _tensor(array: NDArray[Any], name: str) -> onnx.TensorProto:
    if array.dtype.kind in "OU":
        texts = [str(text).encode() for text in array.ravel()]
        return helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, texts)
    return numpy_helper.from_array(np.ascontiguousarray(array), name)
