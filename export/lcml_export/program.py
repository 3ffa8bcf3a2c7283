"""The compiled form: terms computed by layers of products, then one weighted sum."""

from dataclasses import dataclass

from lcml.arrays import FloatArray
from lcml_export.graph import IndexArray


@dataclass(frozen=True, eq=False)
class Products:
    """Rows left[i] * right[i]; which rows the indices mean is said by `Program`."""

    left: IndexArray
    right: IndexArray

    def __len__(self) -> int:
        return len(self.left)


@dataclass(frozen=True, eq=False)
class Program:
    """logits = bias + weights . features, the features being products of literals computed in layers.

    table: rows 0..2n-1 are the literals q, 1 - q; every layer of `table` multiplies one of the rows that came last
    (left) with any row of the table so far (right, rising), and its products are appended to the table.
    chain: its first layer multiplies two table rows, every other one a row of the layer before it (left) with a table
    row (right); rows that the next layer uses come first in their layer.
    The features are the table rows `table_features`, then all rows of the chain; weights (n_sets, n_features).
    """

    n_variables: int
    table: tuple[Products, ...]
    chain: tuple[Products, ...]
    table_features: IndexArray
    weights: FloatArray
    bias: FloatArray

    @property
    def n_products(self) -> int:
        return sum(len(layer) for layer in (*self.table, *self.chain))

    @property
    def n_used(self) -> list[int]:
        """Per layer of the chain, how many of its rows, the first ones, the next layer uses."""
        return [int(layer.left.max()) + 1 for layer in self.chain[1:]] + [0] * bool(self.chain)
