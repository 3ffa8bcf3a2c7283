"""The CUDA sources through NVIDIA's compiler, without a card: NVRTC of the wheel `nvidia-cuda-nvrtc`.

What comes out is machine code of an architecture, a cubin. That it computes what it should is shown by the tests that
run the same source on the host, and on a card where there is one.
"""

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lcml.backend.kernels import cuda, cuda_products

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")

KERNELS = [
    (cuda.SOURCE, "lcml_pass", ("-DReal=float",)),
    (cuda.SOURCE, "lcml_pass", ("-DReal=float", "-DN_SETS=10")),
    (cuda.SOURCE, "lcml_pass", ("-DReal=double", "-DN_SETS=1")),
    (cuda_products.SOURCE, "lcml_products", ("-DReal=float", "-DOut=float")),
    (cuda_products.SOURCE, "lcml_products", ("-DReal=float", "-DOut=Fixed8")),
    (cuda_products.SOURCE, "lcml_products", ("-DReal=float", "-DOut=Fixed16")),
    (cuda_products.SOURCE, "lcml_products", ("-DReal=double", "-DOut=double")),
]
"""Varieties that the backend asks for, each on one of the architectures in turn: one takes half a second."""


class Nvrtc:
    """NVRTC's C interface, as far as it is needed: every function answers 0 or an error."""

    def __init__(self, library: Path) -> None:
        for builtins in sorted(library.parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self._functions = ctypes.CDLL(str(library))

    def compiled(self, source: str, options: list[str]) -> bytes:
        """The cubin; an AssertionError with what the compiler says where it has errors or warnings."""
        program = ctypes.c_void_p()
        self._call("CreateProgram", ctypes.byref(program), source.encode(), b"lcml.cu", 0, None, None)
        arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = self._functions.nvrtcCompileProgram(program, len(options), arguments)
        log = self._read(program, "ProgramLog").rstrip(b"\0").decode().strip()
        assert (code, log) == (0, ""), f"{' '.join(options)}: {log}"
        cubin = self._read(program, "CUBIN")
        self._call("DestroyProgram", ctypes.byref(program))
        return cubin

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, content)
        return content.raw

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._functions, f"nvrtc{name}")(*arguments)
        assert code == 0, f"nvrtc{name}: error {code}"


@cache
def nvrtc() -> Nvrtc:
    """Where the wheel is missing a test is skipped; in CI it fails, for the extra `test` brings the wheel."""
    spec = find_spec("nvidia")
    places = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    found = [library for place in places for library in sorted(place.glob("*/lib/libnvrtc.so.*"))]
    if not found:
        message = "NVRTC is not installed: pip install nvidia-cuda-nvrtc"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    return Nvrtc(found[-1])


@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_a_kernel_compiles(number: int) -> None:
    (source, name, options), architecture = KERNELS[number], ARCHITECTURES[number % len(ARCHITECTURES)]
    cubin = nvrtc().compiled(source, [*options, f"--gpu-architecture={architecture}", "--std=c++17"])
    assert cubin[:4] == b"\x7fELF"
    assert f".text.{name}\0".encode() in cubin


def test_an_error_of_the_source_is_found() -> None:
    with pytest.raises(AssertionError, match="Reel"):
        nvrtc().compiled(cuda.SOURCE, ["-DReal=Reel", "--gpu-architecture=sm_80"])
