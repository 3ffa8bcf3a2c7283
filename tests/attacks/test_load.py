"""A service under load, with more idle connections than it may open files."""

import pytest

from tests.attacks.attack import FULL
from tests.bench.serving_load import main

SECONDS, IDLE = "60", "1100"


@pytest.mark.skipif(not FULL, reason="takes a minute: LCML_ATTACKS=full; tests/serving has a short one")
def test_no_request_is_lost() -> None:
    assert main(["--each", "0", "--seconds", SECONDS, "--idle", IDLE]) == 0
