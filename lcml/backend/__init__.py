"""Where arrays live: one switch between numpy and numba (CPU) and cupy (CUDA).

Code on the way of a mini-batch takes a `Backend` and uses `backend.xp` for everything the two libraries share. What
they do not share, and what must be fast, is a method of `Backend`, with one implementation per backend.
"""

import sys
from functools import cache

from lcml.backend.base import Array, Backend, BackendName, FeaturePrecision, Precision, evaluation_precision
from lcml.backend.cuda import CupyBackend, cuda_is_available
from lcml.backend.host import NumbaBackend, NumpyBackend
from lcml.errors import MissingDependencyError, SettingsError

__all__ = [
    "Array",
    "Backend",
    "BackendName",
    "CupyBackend",
    "FeaturePrecision",
    "NumbaBackend",
    "NumpyBackend",
    "Precision",
    "cuda_is_available",
    "evaluation_precision",
    "get_backend",
]


def get_backend(name: BackendName = "auto") -> Backend:
    """The backend called `name`; `auto` is cupy where a CUDA device answers, else numba where installed, else numpy.

    Raises SettingsError for an unknown name or cupy without a device, MissingDependencyError for one not installed.
    """
    if name == "auto":
        if cuda_is_available():
            return CupyBackend()
        try:
            return NumbaBackend()
        except MissingDependencyError as error:
            _notice_once(f"using the slower numpy backend: {error}")
            return NumpyBackend()
    if name == "numpy":
        return NumpyBackend()
    if name == "numba":
        return NumbaBackend()
    if name == "cupy":
        return CupyBackend()
    raise SettingsError(f"unknown backend {name!r}: expected auto, numpy, numba or cupy")


@cache
def _notice_once(text: str) -> None:
    print(f"lcml: {text}", file=sys.stderr)
