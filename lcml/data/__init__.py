"""Data sets by name or path, checked at the door and divided for learning."""

from lcml.data.division import DataSplits, Examples
from lcml.data.load import UNLABELLED, load_examples, load_rows, load_splits
from lcml.data.named import NAMED_SETS

__all__ = ["NAMED_SETS", "UNLABELLED", "DataSplits", "Examples", "load_examples", "load_rows", "load_splits"]
