"""The flattened ONNX form of a logistic circuit.

report = export_model(load_model("digits.lcml"), "digits.onnx")
print(*report.lines(), sep="\\n")
"""

from lcml_export.export import ExportReport, export_model
from lcml_export.input_types import InputType
from lcml_export.profiles import PROFILES, Profile

__all__ = ["PROFILES", "ExportReport", "InputType", "Profile", "export_model"]
