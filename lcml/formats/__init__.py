"""Files lcml reads and writes: its own model file and the text formats of vtrees and of the authors' circuits."""

from lcml.formats.model_file import load_model, save_model

__all__ = ["load_model", "save_model"]
