import numpy as np
import pytest

from lcml.model.intervals import auc_intervals, calibration, mean_interval, wilson


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_in_newcombe(right: int, n: int, low: float, high: float) -> None:
    """R. G. Newcombe, Statistics in Medicine 1998, table I, method 3."""
    assert wilson(right, n) == pytest.approx((right / n, low, high), abs=5e-5)


def test_delong_by_hand() -> None:
    """Positives .8, .4; negatives .6, .2, .1: 5 of 6 pairs are in order. The variances of the shares 1, 2/3 and of
    1/2, 1, 1 are 1/18 and 1/12; these over 2 and over 3 make 1/36 + 1/36."""
    scores, labels = np.array([0.8, 0.4, 0.6, 0.2, 0.1]), np.array([1, 1, 0, 0, 0])
    mean, areas = auc_intervals(np.stack([1 - scores, scores], axis=1), labels)
    assert mean == areas[1] == pytest.approx((5 / 6, 5 / 6 - 1.959964 * np.sqrt(1 / 18), 1.0))


def test_of_more_classes_the_mean_and_none_of_a_class_that_is_not_there() -> None:
    """Two classes are each other's opposite, so their areas and errors are one; of the third there is no example."""
    scores, labels = np.array([0.8, 0.4, 0.6, 0.2, 0.1]), np.array([1, 1, 0, 0, 0])
    mean, areas = auc_intervals(np.stack([1 - scores, scores, 0 * scores], axis=1), labels)
    assert set(areas) == {0, 1}
    assert mean == pytest.approx(areas[0])
    assert mean == pytest.approx(areas[1])


def test_areas_without_ends() -> None:
    """Equal scores count half; a single positive has no variance; pairs that are all in order have no error."""
    labels = np.array([1, 0, 0])
    (found, _) = auc_intervals(np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]]), labels)
    assert (found.value, np.isnan(found.low)) == (0.75, True)
    (found, _) = auc_intervals(np.array([[0.1, 0.9], [0.5, 0.5], [0.2, 0.8]]), np.array([1, 0, 1]))
    assert (found.value, np.isnan(found.low)) == (1.0, True)
    assert np.isnan(auc_intervals(np.array([[0.5, 0.5]]), np.array([1]))[0].value)


def test_mean_and_calibration_by_hand() -> None:
    assert mean_interval(np.array([1.0, 3.0])) == pytest.approx((2.0, 2 - 1.959964, 2 + 1.959964))
    assert np.isnan(mean_interval(np.ones(1)).low)
    said = np.array([0.05, 0.15, 0.11, 0.95])
    found = calibration(np.stack([1 - said, said], axis=1), np.array([0, 1, 0, 1]))
    assert found.said == pytest.approx([0.05, 0.13, 0.95])
    assert found.right.tolist() == [0, 0.5, 1]
