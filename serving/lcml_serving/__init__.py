"""Serving of exported logistic circuits over HTTP on onnxruntime: `python -m lcml_serving PATH`.

Needs numpy, onnxruntime, starlette and uvicorn, and nothing else of lcml.
"""

import os

__version__ = "0.1.0"

# onnxruntime's Linux wheels report usage unless this is set before they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
