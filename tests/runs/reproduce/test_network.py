"""The convolutional network by hand: its layers as sums over pixels, its steps as Kingma & Ba write them.

It is computed in a process of its own: jax has threads, beside which no other test could fork.
"""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import correlate2d

from lcml.runs.reproduce.baselines import SETTINGS
from tests.runs.reproduce.test_baselines import DIGITS

X, Y = (DIGITS.train.features[:] / 255).astype(np.float32), DIGITS.train.labels
SMALL = {"filters": (3, 4), "units": 7, "max_iter": 1, "batch_size": 50}


@pytest.fixture(scope="module")
def apart() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        yield executor


def fitted(settings: dict[str, Any], x: NDArray[Any], y: NDArray[Any], *others: NDArray[Any]) -> SimpleNamespace:
    """What a network has learned, and what it predicts of others."""
    from lcml.runs.reproduce.network import ConvolutionalNetwork

    network = ConvolutionalNetwork(**settings, random_state=1).fit(x, y)
    return SimpleNamespace(**vars(network), predicted=[network.predict(other) for other in others])


def logits_of_one(network: SimpleNamespace, image: NDArray[Any]) -> NDArray[Any]:
    maps = [image.astype(np.float64)]
    for filters, bias in zip(network.coefs_[:-2], network.intercepts_[:-2], strict=True):
        convolved = [
            sum(correlate2d(m, filters[:, :, i, o], mode="same") for i, m in enumerate(maps)) + bias[o]
            for o in range(filters.shape[3])
        ]
        side = len(maps[0])
        maps = [
            np.array([[max(0, m[i : i + 2, j : j + 2].max()) for j in range(0, side, 2)] for i in range(0, side, 2)])
            for m in convolved
        ]
    units = np.maximum(0, np.stack(maps, axis=-1).ravel() @ network.coefs_[-2] + network.intercepts_[-2])
    return np.asarray(units @ network.coefs_[-1] + network.intercepts_[-1])


@pytest.mark.parametrize("side", [8, 7])  # an odd side is pooled with padding
def test_a_prediction_is_what_the_layers_make_by_hand(apart: Executor, side: int) -> None:
    images = X.reshape(-1, 8, 8)[:, :side, :side]
    rows = images.reshape(len(images), -1)
    network = apart.submit(fitted, SMALL | {"max_iter": 10, "batch_size": 20}, rows, 2 * Y, rows[:40]).result()
    by_hand = [network.classes_[np.argmax(logits_of_one(network, image))] for image in images[:40]]
    assert network.predicted[0].tolist() == by_hand
    assert len(set(by_hand)) > 2


def test_the_first_step_of_adam_goes_as_far_for_every_weight(apart: Executor) -> None:
    before, after = (apart.submit(fitted, SMALL | {"max_iter": epochs}, X[:50], Y[:50]).result() for epochs in (0, 1))
    moved = np.concatenate([(b - a).ravel() for a, b in zip(before.intercepts_, after.intercepts_, strict=True)])
    moved = np.abs(moved[moved != 0])  # units that no image reaches stay
    assert np.quantile(moved, [0, 1]) == pytest.approx([1e-3, 1e-3], rel=1e-3)


def test_the_network_of_the_paper_has_as_many_weights_as_is_told_and_learns(apart: Executor) -> None:
    others = (DIGITS.test.features[:] / 255).astype(np.float32)
    network = apart.submit(fitted, {**SETTINGS["cnn"], "max_iter": 10}, X, Y, X, others).result()
    assert [coefs.shape for coefs in network.coefs_] == [
        *((3, 3, 1, 32), (3, 3, 32, 64), (3, 3, 64, 128)),
        *((128, 1024), (1024, 10)),  # 8 x 8 pixels are one after three poolings
    ]
    train_labels, other_labels = network.predicted
    assert np.mean(train_labels == Y) > 0.98
    assert np.mean(other_labels == DIGITS.test.labels) > 0.9
    blank = np.zeros((1, 784), np.float32), np.zeros(1, np.int64)
    of_paper = apart.submit(fitted, {**SETTINGS["cnn"], "max_iter": 0}, *blank).result()
    n_weights = sum(array.size for array in (*of_paper.coefs_, *of_paper.intercepts_))
    assert n_weights + 9 * (1024 + 1) == 320 + 18_496 + 73_856 + (2048 + 1) * 1024 + (1024 + 1) * 10 == 2_201_098
