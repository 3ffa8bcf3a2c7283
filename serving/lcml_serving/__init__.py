"""Serving of exported logistic circuits over HTTP on onnxruntime: `python -m lcml_serving PATH`.

Needs numpy, onnxruntime, starlette and uvicorn, and nothing else of lcml.
"""

import os
from typing import Any

__version__ = "0.1.0"

# onnxruntime's Linux wheels report usage unless this is set before they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> Any:
    """`Scorer`, imported with onnxruntime when it is asked for."""
    if name == "Scorer":
        from lcml_serving.scorer import Scorer

        return Scorer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
