"""Where arrays live: one switch between numpy and numba (CPU) and cupy (CUDA).

Code on the way of a mini-batch takes a `Backend` and uses `backend.xp` for everything the two libraries share. What
they do not share, and what must be fast, is a method of `Backend`, with one implementation per backend.
"""

import copyreg

from lcml.backend.base import Array, Backend, BackendName, FeaturePrecision, Precision, evaluation_precision
from lcml.backend.cuda import CupyBackend, cuda_is_available
from lcml.backend.host import NumbaBackend, NumpyBackend
from lcml.errors import MissingDependencyError, SettingsError

__all__ = ["Array", "Backend", "BackendName", "CupyBackend", "FeaturePrecision", "NumbaBackend", "NumpyBackend"]
__all__ += ["Precision", "cuda_is_available", "evaluation_precision", "get_backend", "why_slow"]

_BACKENDS: dict[str, type[Backend]] = {"numpy": NumpyBackend, "numba": NumbaBackend, "cupy": CupyBackend}

_made: dict[str, Backend] = {}


def get_backend(name: BackendName = "auto") -> Backend:
    """The backend called `name`; `auto` is cupy where a CUDA device answers, else numba where installed, else numpy.

    There is one per name and process. Raises SettingsError for an unknown name or cupy without a device,
    MissingDependencyError for one not installed.
    """
    if name not in _made:
        _made.setdefault(name, _make(name))  # of threads that come at once all get the first one's
    return _made[name]


for _kind in (NumpyBackend, NumbaBackend, CupyBackend):
    copyreg.pickle(_kind, lambda backend: (get_backend, (backend.name,)))  # the one of the process it is sent to


def why_slow(name: BackendName) -> str | None:
    """What who asked for this backend should be told, in a line: that `auto` is numpy, and what would be faster, or
    that kernels must be compiled first."""
    backend = get_backend(name)
    if backend.name == NumbaBackend.name:
        from lcml.backend.kernels.compiled import compiling_notice

        return compiling_notice()
    if name != "auto" or backend.name != NumpyBackend.name:
        return None
    try:
        get_backend("numba")
    except (MissingDependencyError, SettingsError) as error:
        return f"using the slower numpy backend: {error}"
    return None


def _make(name: str) -> Backend:
    if name != "auto":
        if name not in _BACKENDS:
            raise SettingsError(f"unknown backend {name!r}: expected auto, numpy, numba or cupy")
        return _BACKENDS[name]()
    if cuda_is_available():
        return get_backend("cupy")
    try:
        return get_backend("numba")
    except (MissingDependencyError, SettingsError):
        return get_backend("numpy")
