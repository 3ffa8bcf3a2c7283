import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

from lcml.errors import DataError, MissingDependencyError
from lcml.runs.plots import (
    Point,
    accuracy_by_size,
    confusion_figure,
    confusion_matrix,
    curves_figure,
    learning_curves,
    size_figure,
)
from lcml.runs.records import RoundRecord

pytestmark = pytest.mark.unabridged

FIRST = RoundRecord("grow", 0, 0.1, 9, 3, 100, 0, 4, 0.9, 0.7, 1.0, 0.6, 0.5, True, {}, 0.9)
SECOND = replace(FIRST, round=1, n_parameters=150, train_log_loss=0.5, valid_loss=float("nan"))
REPORTS = [FIRST, replace(SECOND, train_accuracy=0.9, valid_accuracy=0.8)]


def size(png: bytes) -> tuple[int, int]:
    """Width and height as matplotlib's reader finds them."""
    from matplotlib.image import imread

    height, width, _ = imread(io.BytesIO(png), format="png").shape
    return width, height


def test_learning_curves_draw_the_reports_values() -> None:
    loss, accuracy, parameters = curves_figure(REPORTS).axes
    np.testing.assert_array_equal(loss.lines[0].get_xydata(), [[0, 0.9], [1, 0.5]])
    np.testing.assert_array_equal(loss.lines[1].get_xydata(), [[0, 1.0], [1, np.nan]])
    np.testing.assert_array_equal(accuracy.lines[1].get_xydata(), [[0, 0.6], [1, 0.8]])
    np.testing.assert_array_equal(parameters.lines[0].get_xydata(), [[0, 100], [1, 150]])


@pytest.mark.parametrize("reports", [REPORTS, REPORTS[:1], []])
def test_learning_curves_are_png_and_reproducible(reports: list[RoundRecord]) -> None:
    png = learning_curves(reports)
    assert size(png) == (1440, 432)  # 12 x 3.6 inches of 120 dots
    assert learning_curves(reports) == png


def test_the_chosen_round_is_marked_and_what_an_old_checkpoint_lacks_is_a_gap() -> None:
    figure = curves_figure(REPORTS, 1)
    for axes in figure.axes:
        np.testing.assert_array_equal(axes.lines[-1].get_xdata(), [1, 1])
    (legend,) = figure.legends  # beside the curves, so that it hides none
    assert [text.get_text() for text in legend.get_texts()] == ["train", "validation", "chosen: round 1"]
    (line, _) = curves_figure([replace(FIRST, train_log_loss=None)]).axes[0].lines
    assert np.isnan(line.get_ydata()).all()


def test_confusion_matrix_shows_every_error() -> None:
    counts = np.diag([1000, 1000, 0])
    counts[0, 1], counts[1, 0] = 1, 30
    figure = confusion_figure(counts, ["cat", "$dog", "a name that is longer than all others"], "test")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["1000", "1", "30", "1000"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["cat", r"\$dog", "a name that is …l others"]
    right, wrong = (image.get_array() for image in axes.images)
    np.testing.assert_allclose(right.diagonal(), [1000 / 1001, 1000 / 1030, 0])
    assert (wrong.mask == (counts * (1 - np.eye(3)) == 0)).all()
    assert 0.3 < wrong[0, 1] < wrong[1, 0] == 1
    assert figure.get_suptitle() == "test rows: 2,000 of 2,031 right"


def test_confusion_matrix_of_many_classes_stays_small() -> None:
    png = confusion_matrix(np.eye(100, dtype=int), range(100))
    assert size(png) == (1920, 1920)
    assert not confusion_figure(np.eye(100, dtype=int), range(100)).axes[0].texts


def test_confusion_matrix_must_fit_the_classes() -> None:
    with pytest.raises(DataError, match=r"expected shape \(2, 2\) for 2 classes, found \(3, 3\)"):
        confusion_matrix(np.eye(3), [0, 1])


def test_accuracy_by_size_draws_what_was_measured_and_what_is_claimed() -> None:
    panels = {"one": [Point("a", 10, 0.9, True), Point("b", 1000, 0.95, False), Point("c", 20, 0.5, True)]}
    panels["two"] = panels["one"][:1]
    one, two = size_figure(panels).axes
    measured, claimed = one.collections
    np.testing.assert_array_equal(measured.get_offsets(), [[10, 90], [20, 50]])
    np.testing.assert_array_equal(claimed.get_offsets(), [[1000, 95]])
    assert (one.get_title(), one.get_xscale(), len(claimed.get_facecolors())) == ("one", "log", 0)
    assert [text.get_text() for text in one.texts] == ["a", "b", "c"]
    assert (two.get_title(), len(two.texts)) == ("two", 1)
    assert size(accuracy_by_size(panels)) == (1920, 600)


def test_no_label_hides_another_nor_the_title_nor_the_legend() -> None:
    """Models of one accuracy at the top, others at the bottom."""
    points = [Point(f"a long name {i}", 10**6 + i, 0.99 if i < 5 else 0.92, i % 2 == 0) for i in range(10)]
    figure = size_figure({"one": points})
    figure.draw_without_rendering()
    (axes,) = figure.axes
    labels = [Text.get_window_extent(text) for text in axes.texts]  # without the lines that lead to them
    others = [axes.title.get_window_extent(), axes.get_legend().get_window_extent(), axes.get_window_extent()]
    for i, label in enumerate(labels):
        assert not any(label.overlaps(other) for other in [*labels[:i], *others])
        assert 0 < label.x0 < label.x1 < figure.bbox.x1


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"matplotlib: pip install 'lcml\[tracking\]'"):
        learning_curves(REPORTS)


def test_matplotlib_is_imported_only_to_draw_and_without_pyplot() -> None:
    code = (
        "import sys, lcml.runs.plots; assert 'matplotlib' not in sys.modules; lcml.runs.plots.learning_curves([]); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
