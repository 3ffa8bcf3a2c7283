"""Reports of a table and of images, their numbers worked out again, and both pages in a real browser."""

import io
import json
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from lcml.backend import get_backend
from lcml.circuits.circuit import initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.trees import Tree, tree_part
from lcml.circuits.views import IdentityView, WindowView, window_vtree
from lcml.circuits.vtree import balanced
from lcml.errors import DataError
from lcml.explain.report.columns import split_terms
from lcml.explain.report.drawing import COLOURS, Drawing, Image, Line, Rect, Text, data_uri, png, svg
from lcml.explain.report.measured import Measured
from lcml.explain.report.report import report_page
from lcml.explain.terms import column_axis, term_at, term_values
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.inputs.table import RawColumn, Table
from lcml.model.model import LogisticCircuit
from tests.browser import chromium

N = 60
DRAWN = """return [...document.querySelectorAll("figure > svg")].map((one) => [
    one.getAttribute("aria-label"), one.getAttribute("role"), Math.min(one.clientWidth, one.clientHeight)])"""


def table_model() -> tuple[LogisticCircuit, Table]:
    """A number with gaps and steps, a category and a whole number: curves of all, a tree of two and one of three."""
    columns = (
        Column("age", "number", np.array([20.0, 30, 50, 80]), (), True, False, np.array([40.0]), np.array([True])),
        Column("state", "category", np.zeros(0), ("a", "b", "<c>"), False, True),
        Column("debt", "number", np.array([0.0, 1, 2]), (), False, False, np.array([0.5]), np.array([False])),
    )
    encoder = ColumnsEncoder(columns)
    step, first, debt, n = 4, 5, 11, encoder.n_outputs
    trees = [Tree(step, Tree(first, 0, 1), 2), Tree(step, Tree(first, Tree(debt, 0, 1), 2), 3)]
    part, _ = tree_part(trees, n)
    circuit = initial_circuit(balanced(n))
    additive = Part(IdentityView(n), circuit, np.arange(2 * n + circuit.n_elements) < n)
    generator = np.random.default_rng(3)
    n_features = additive.n_features + part.n_features
    model = LogisticCircuit(
        encoder, (additive, part), ("no", "yes"), generator.normal(size=(1, n_features)), np.array([0.3])
    )
    codes = np.stack([generator.uniform(10, 90, N), generator.integers(0, 4, N), generator.uniform(0, 2, N)], axis=1)
    codes[::7, 0] = np.nan
    texts = RawColumn("state", "text", ("a", "b", "<c>", "d"))
    return model, Table((RawColumn("age"), texts, RawColumn("debt")), codes)


def image_model() -> tuple[LogisticCircuit, np.ndarray]:
    view = WindowView((1, 4, 4), (2, 2), grid=(2, 2), root=True)
    part = Part.full(view, initial_circuit(window_vtree(view)))
    generator = np.random.default_rng(4)
    weights = generator.normal(size=(3, part.n_features))
    model = LogisticCircuit(ScaleEncoder(np.zeros(16), np.ones(16)), (part,), ("p", "q", "r"), weights, np.zeros(3))
    return model, generator.random((N, 16))


def plain_model(n: int, classes: int) -> LogisticCircuit:
    part = Part.full(IdentityView(n), initial_circuit(balanced(n)))
    n_sets = 1 if classes == 2 else classes
    weights = np.random.default_rng(0).normal(size=(n_sets, part.n_features))
    names = tuple(f"class {k}" for k in range(classes))
    return LogisticCircuit(ScaleEncoder(np.zeros(n), np.ones(n)), (part,), names, weights, np.zeros(n_sets))


def measured(model: LogisticCircuit, x: Any, labels: Any = None) -> Measured:
    k = len(model.classes)
    labels = np.random.default_rng(1).integers(0, k, len(x)) if labels is None else np.asarray(labels, np.int64)
    return Measured(model, x, labels, "test", "some <data>", get_backend("numpy"))


def test_what_is_drawn_and_the_rest_sum_to_the_logits() -> None:
    """Curves are read off between the points that are drawn, as one reads them off the picture."""
    model, table = table_model()
    split = split_terms(measured(model, table))
    assert [split.terms[t].columns for t in split.drawn if len(split.terms[t].columns) == 2] == [(0, 1)]
    encoder = model.encoder
    assert isinstance(encoder, ColumnsEncoder)
    codes, total = encoder.codes(table), np.full(N, split.base[0])
    for t in split.drawn:
        term = split.terms[t]
        own = codes[:, list(term.columns)]
        if len(term.columns) == 1:
            axis = column_axis(model, term.columns[0])
            curve, there = term_at(model, term, axis.codes[:, None])[:, 0], np.isfinite(axis.codes)
            read = np.interp(own[:, 0], axis.codes[there], curve[there])
            read[np.isnan(own[:, 0])] = curve[~there][0] if not there.all() else np.nan
        else:
            read = term_at(model, term, own)[:, 0]
        total += read - split.means[t, 0]
    features = next(iter(measured(model, table).chunks()))[1]
    others = [t for t in range(len(split.terms)) if t not in set(split.drawn)]
    assert {split.terms[t].columns for t in others} == {(0, 1, 2)}
    rest = sum(term_values(model, [split.terms[t] for t in others], features), start=np.zeros(1))
    rest = rest[:, 0] - split.means[others, 0].sum()
    assert total + rest == pytest.approx(model.logits(table, precision="float64")[:, 0], abs=1e-5)
    assert np.abs(rest).mean() == pytest.approx(split.rest[0], abs=1e-5)


class _Page(HTMLParser):
    """The figures of a page without their text alternatives, and the addresses that it would ask for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.n_drawn, self.untold, self.asked = 0, 0, list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.n_drawn += tag == "svg"
        self.untold += tag in ("svg", "img") and not (has.get("aria-label") or has.get("alt"))
        self.asked += [has[name] or "" for name in ("src", "href") if name in has and not _inside(has[name] or "")]


def _inside(address: str) -> bool:
    return address.startswith(("data:", "#"))


@pytest.mark.parametrize(
    ("n", "classes", "rows", "most"), [(600, 2, 40, 400), (6, 500, 700, 400), (4, 2, 1, 60), (4, 3, 1, 60)]
)
def test_a_page_of_many_and_of_few_is_of_bounded_size(n: int, classes: int, rows: int, most: int) -> None:
    model = plain_model(n, classes)
    page = report_page(measured(model, np.random.default_rng(2).random((rows, n))))
    assert len(page) < 1000 * most
    found = _Page(page)
    assert (found.untold, found.asked) == (0, [])
    assert found.n_drawn > 5
    assert ">nan<" not in page
    assert "The model does not say: it has no provenance." in page
    assert "The model does not hold the figures of its rounds." in page


def test_a_report_of_nothing() -> None:
    with pytest.raises(DataError, match="some <data> has no examples to report of"):
        report_page(measured(plain_model(4, 2), np.zeros((0, 4)), []))


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 3), (3, 5, 4)])
def test_pixels_are_a_png(shape: tuple[int, ...]) -> None:
    from matplotlib.image import imread

    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    with urlopen(data_uri(pixels)) as content:
        assert np.rint(255 * imread(io.BytesIO(content.read()), "png")).tolist() == pixels.tolist()


def test_a_drawing_as_a_picture() -> None:
    """In twice as many pixels: a red square on white where it was put, above what came before it."""
    from matplotlib.image import imread

    drawing = Drawing(40, 20, "a square")
    drawing.add(Rect(0, 0, 40, 20, "paper"), Image(0, 0, 10, 10, np.zeros((2, 2), np.uint8)))
    drawing.add(Rect(20, 5, 10, 10, "minus"), Line([(0, 19), (40, 19)], dashed=True), Text(2, 18, "$a", size=6))
    found = np.rint(255 * imread(io.BytesIO(png(drawing)), "png"))[..., :3]
    assert found.shape == (40, 80, 3)
    colours = {place: "#" + "".join(f"{int(c):02x}" for c in found[place]) for place in ((20, 50), (4, 4), (4, 70))}
    assert list(colours.values()) == [COLOURS["minus"], "#000000", COLOURS["paper"]]
    assert 'aria-label="a square"' in svg(drawing, COLOURS)
    assert "var(--" not in svg(drawing, COLOURS)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("browser"), {"browser": "ALL", "performance": "ALL"}) as driver:
        yield driver


def test_the_pages_in_a_browser(browser: Any, tmp_path: Path) -> None:
    for name, (model, x), heading in (
        ("table", table_model(), "What the columns say"),
        ("images", image_model(), "What is seen in the images"),
    ):
        page = tmp_path / f"{name}.html"
        page.write_text(report_page(measured(model, x)), "utf-8")
        browser.get("about:blank")
        for log in ("browser", "performance"):
            browser.get_log(log)  # of the page that the browser begins with
        browser.get(page.as_uri())
        assert browser.get_log("browser") == []
        events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        asked = {one["request"]["url"] for one in sent}
        assert {address for address in asked if not address.startswith(("data:", "chrome:"))} == {page.as_uri()}
        text = browser.find_element("tag name", "body").text
        assert heading in text
        assert "some <data>" in text
        assert len(drawn := browser.execute_script(DRAWN)) > 15
        assert all(label and role == "img" for label, role, _ in drawn)
        assert all(shorter_side > 20 for *_, shorter_side in drawn)
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.execute_script(wide) == 0
    filtered = browser.find_elements("class name", "filter")[0]
    filtered.send_keys("it is r (")
    shown = browser.execute_script("return [...arguments[0].nextSibling.children].map((one) => !one.hidden)", filtered)
    assert 0 < sum(shown) < len(shown)
