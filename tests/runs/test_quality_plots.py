import numpy as np
import pytest

from lcml.runs.figures import class_figures, class_lines, class_metrics
from lcml.runs.quality_plots import calibration_figure, precision_recall_figure, quality_pictures, roc_figure

pytestmark = pytest.mark.unabridged

LABELS = np.array([0, 0, 1, 1])
P = np.array([[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]])  # scores of class 1: .1 .4 .35 .8
CLASSES = ("benign", "malignant")


def test_two_classes_have_one_curve_of_the_second() -> None:
    """The example in scikit-learn's documentation of both curves."""
    (roc, chance) = roc_figure(P, LABELS, CLASSES, "test").axes[0].lines
    np.testing.assert_allclose(roc.get_xydata(), [[0.0, 0.0], [0.0, 0.5], [0.5, 0.5], [0.5, 1.0], [1.0, 1.0]])
    assert roc.get_label() == "class malignant: area 0.750"
    (line,) = precision_recall_figure(P, LABELS, CLASSES, "test").axes[0].lines
    np.testing.assert_allclose(line.get_xydata(), [[1.0, 0.5], [1.0, 2 / 3], [0.5, 0.5], [0.5, 1.0], [0.0, 1.0]])
    assert line.get_label() == "class malignant: average 0.833"
    del chance


def test_calibration_is_the_share_right_in_bins() -> None:
    axes = calibration_figure(P, LABELS, CLASSES, "validation").axes[0]
    np.testing.assert_allclose(axes.lines[1].get_xydata(), [[0.1, 0], [0.35, 1], [0.4, 0], [0.8, 1]])
    said, error = axes.get_title().rsplit(maxsplit=1)
    assert said == "calibration, validation rows: error"
    assert float(error) == pytest.approx((0.1 + 0.65 + 0.4 + 0.2) / 4, abs=6e-4)
    three = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    axes = calibration_figure(three, np.array([0, 1, 2, 0]), ("a", "b", "c"), "test").axes[0]
    np.testing.assert_allclose(axes.lines[1].get_xydata(), [[0.5, 2 / 3], [0.8, 1]])


@pytest.mark.parametrize("k", [2, 3, 25])
def test_every_number_of_classes_has_its_pictures(k: int) -> None:
    generator = np.random.default_rng(0)
    p, labels = generator.dirichlet(np.ones(k), 40), generator.integers(0, k, 40)
    labels[:] = np.where(labels == k - 1, 0, labels) if k > 2 else labels  # one class without an example
    pictures = dict(quality_pictures(p, labels, [f"${n}" for n in range(k)], "test"))
    assert list(pictures) == ["roc", "precision_recall", "calibration"]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    curves = len(roc_figure(p, labels, range(k), "test").axes[0].lines) - 1
    assert curves == {2: 1, 3: 2, 25: 1}[k]


def test_labels_of_one_class_alone_draw_no_curve() -> None:
    for name, picture in quality_pictures(P, np.zeros(4, int), CLASSES, "test"):
        assert name
        assert picture.startswith(b"\x89PNG")
    assert not roc_figure(P, np.zeros(4, int), CLASSES, "test").axes[0].get_legend()


def test_figures_of_every_class() -> None:
    counts = [[3, 1, 0], [1, 1, 0], [0, 0, 0]]
    figures = class_figures(counts)
    np.testing.assert_allclose(figures["precision"], [0.75, 0.5, 0])
    np.testing.assert_allclose(figures["recall"], [0.75, 0.5, 0])
    np.testing.assert_allclose(figures["f1"], [0.75, 0.5, 0])
    metrics = class_metrics(counts, ("a/b", 2, 3))
    assert (len(metrics), metrics["per class recall/a_b"]) == (9, 0.75)
    assert class_metrics(np.eye(21), range(21)) == {}
    same = [name for name in class_metrics(np.eye(3), ("<50", "=50", "50")) if "f1" in name]
    assert same == ["per class f1/0 _50", "per class f1/1 _50", "per class f1/2 50"]
    first = '{"class": "a/b", "n_examples": 4, "precision": 0.75, "recall": 0.75, "f1": 0.75}'
    assert class_lines(counts, ("a/b", 2, 3)).splitlines()[0] == first
