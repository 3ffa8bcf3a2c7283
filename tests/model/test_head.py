"""Loss, its derivatives and probabilities of every head against scipy and finite differences, also at the extremes."""

import array_api_strict
import numpy as np
import pytest
from scipy.special import expit, log_expit, log_softmax, softmax

from lcml.model.head import HEADS, Link

LINKS: list[Link] = ["sigmoid", "softmax"]
LOGITS = np.random.default_rng(0).normal(scale=3, size=(4, 30))
TARGETS = np.eye(4)[:, np.random.default_rng(1).integers(0, 4, 30)]


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_losses_by_their_formulas(xp: object) -> None:
    logits, targets = (xp.asarray(array) for array in (LOGITS, TARGETS))  # type: ignore[attr-defined]
    signs = 2 * TARGETS - 1
    found = {link: np.asarray(head.loss(xp, logits, targets)) for link, head in HEADS.items()}
    np.testing.assert_allclose(found["sigmoid"], -log_expit(signs * LOGITS), atol=1e-12)
    np.testing.assert_allclose(found["softmax"], -(TARGETS * log_softmax(LOGITS, axis=0)).sum(axis=0)[None], atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_derivatives_are_those_of_the_loss(link: Link) -> None:
    head, step = HEADS[link], 1e-4
    for k in range(4):
        shift = step * np.eye(4)[:, [k]]
        below, here, above = (head.loss(np, LOGITS + s * shift, TARGETS).sum(axis=0) for s in (-1, 0, 1))
        slope, bend = (above - below) / (2 * step), (above - 2 * here + below) / step**2
        np.testing.assert_allclose(head.residual(np, LOGITS, TARGETS)[k], slope, atol=1e-6)
        np.testing.assert_allclose(head.curvature(np, LOGITS)[k], bend, atol=1e-5)


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_the_cautious_curvature_is_the_mean_of_the_exact_one_and_of_a_parabola_above_the_loss(xp: object) -> None:
    """The parabola touches the loss at g and, being the tightest one above it, at -g too."""
    head, g = HEADS["sigmoid"], np.array([[-30.0, -4.0, -1.0, -1e-3, 0.0, 0.5, 3.0, 12.0]])
    found = np.asarray(head.cautious_curvature(xp, xp.asarray(g)))  # type: ignore[attr-defined]
    outer = (2 * found - head.curvature(np, g))[0]
    for target in (0.0, 1.0):

        def lost(logits: np.ndarray, target: float = target) -> np.ndarray:
            return np.asarray(head.loss(np, logits, np.full_like(logits, target)))

        slope = head.residual(np, g, np.full_like(g, target))[0]
        for to in np.linspace(-40, 40, 321):
            step = to - g[0]
            above = lost(g)[0] + slope * step + outer / 2 * step**2
            assert np.all(above >= lost(np.full_like(g, to))[0] - 1e-6)
        np.testing.assert_allclose(lost(g)[0] - 2 * slope * g[0] + 2 * outer * g[0] ** 2, lost(-g)[0], atol=1e-6)
    np.testing.assert_allclose(found[0, 3:5], 0.25, atol=1e-6)


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_of_two_classes_softmax_is_as_cautious_as_the_sigmoid_of_the_difference(xp: object) -> None:
    both = 30 * LOGITS[:2]
    found, odds = (
        np.asarray(of(xp, xp.asarray(both)))  # type: ignore[attr-defined]
        for of in (HEADS["softmax"].cautious_curvature, HEADS["softmax"].log_odds)
    )
    difference = both[:1] - both[1:]
    near = np.abs(difference[0]) < 20
    np.testing.assert_allclose(odds[:, near], np.concatenate([difference, -difference])[:, near], atol=1e-6)
    right = HEADS["sigmoid"].cautious_curvature(np, difference)[0, near]
    np.testing.assert_allclose(found[:, near], [right, right], atol=1e-9)
    assert np.all(np.isfinite(found))


def test_probabilities() -> None:
    sigmoid, softmax_head = HEADS["sigmoid"], HEADS["softmax"]
    np.testing.assert_allclose(softmax_head.probabilities(LOGITS.T), softmax(LOGITS.T, axis=1), atol=1e-15)
    ones = expit(LOGITS.T)
    np.testing.assert_allclose(sigmoid.probabilities(LOGITS.T), ones / ones.sum(axis=1, keepdims=True), atol=1e-15)
    np.testing.assert_allclose(sigmoid.probabilities(LOGITS.T[:, :1])[:, 1], ones[:, 0], atol=1e-15)


def test_large_logits_lose_nothing() -> None:
    far = np.array([[-800.0, -700.0]])
    np.testing.assert_allclose(HEADS["sigmoid"].probabilities(far), [[np.exp(-100), 1]])
    np.testing.assert_allclose(HEADS["softmax"].probabilities(-far), [[1, np.exp(-100)]])
    np.testing.assert_allclose(HEADS["sigmoid"].probabilities(far[:, :1]), [[1, 0]])
    first = np.array([[1.0], [0.0]])
    np.testing.assert_allclose(HEADS["sigmoid"].loss(np, far.T, first), [[800], [0]], atol=1e-12)
    np.testing.assert_allclose(HEADS["softmax"].loss(np, far.T, first), [[100]], atol=1e-12)


def test_sets_losses_and_codes() -> None:
    assert [HEADS[link].n_sets(n) for link in LINKS for n in (2, 3)] == [1, 3, 2, 3]
    assert [HEADS[link].n_losses(3) for link in LINKS] == [3, 1]
    assert HEADS["sigmoid"].class_codes(1).tolist() == [1]
    assert HEADS["softmax"].class_codes(3).tolist() == [0, 1, 2]
