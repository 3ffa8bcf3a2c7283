"""Files lcml reads and writes: its own model file and the text formats of vtrees, circuits and distributions."""

from lcml.formats.circuit_text import read_circuit, write_circuit
from lcml.formats.convert import convert
from lcml.formats.model_file import load_model, save_model
from lcml.formats.psdd_text import read_psdd, write_psdd
from lcml.formats.vtree_text import read_vtree, write_vtree

__all__ = [
    "convert",
    "load_model",
    "read_circuit",
    "read_psdd",
    "read_vtree",
    "save_model",
    "write_circuit",
    "write_psdd",
    "write_vtree",
]
