"""Products with kept features, compiled by numba, beside numpy's in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")

from lcml.backend.kernels.sums import correlation, weighted_sum

TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kept", ["uint8", "uint16", "floats"])
@settings(deadline=None)  # the first call compiles
@given(n_sets=st.integers(1, 5), n_rows=st.integers(1, 10), n_examples=st.integers(1, 40), seed=st.integers(0, 99))
def test_products_of_any_shape(kept: str, dtype: str, n_sets: int, n_rows: int, n_examples: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    features, scale = draw.random((n_rows, n_examples)).astype(dtype), 1.0
    if kept != "floats":
        most = np.iinfo(kept).max
        features, scale = draw.integers(0, most, features.shape, dtype=kept, endpoint=True), 1 / most
    weights, signal = draw.normal(size=(n_sets, n_rows)), draw.normal(size=(n_sets, n_examples))
    for found, right in [
        (weighted_sum(weights.astype(dtype), features, scale), weights.astype(dtype) @ (features * scale)),
        (correlation(signal.astype(dtype), features, scale), signal.astype(dtype) @ (features * scale).T),
    ]:
        assert found.dtype == dtype
        np.testing.assert_allclose(found, right, rtol=0, atol=TOLERANCE[dtype] * (n_rows + n_examples))


def test_weights_out_of_range_are_seen() -> None:
    """A step may be too long, which the line search finds by a loss that is not finite."""
    features = np.full((6, 32), 60000, np.uint16)
    weights = np.full((2, 6), np.float32(3e38))
    assert np.all(np.isinf(weighted_sum(weights, features, 1.0)))
    weights[0, 1] = -np.inf
    assert np.all(np.isnan(weighted_sum(weights, features, 1.0)[0]))
