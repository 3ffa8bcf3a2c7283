"""The garbage collector, kept out where circuits are taken apart."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No search for reference cycles meanwhile, also as a decorator: where there are none, going through ever more
    objects again and again takes a third of the time and more."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
