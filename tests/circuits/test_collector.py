import gc

import pytest

from lcml.circuits.collector import without_collector


def test_the_collector_is_out_meanwhile_and_back_whatever_happens() -> None:
    @without_collector()
    def is_in(fails: bool) -> bool:
        if fails:
            raise ValueError("no")
        return gc.isenabled()

    assert (is_in(False), gc.isenabled()) == (False, True)
    with pytest.raises(ValueError, match="no"):
        is_in(True)
    assert gc.isenabled()


def test_who_keeps_the_collector_out_finds_it_out() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
