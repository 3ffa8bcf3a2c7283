"""Two trainings as one sees them in MLflow's pages, in a real browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lcml.cli import app
from lcml.tracking import list_runs, register, ui_hint
from tests.browser import chromium
from tests.tracking.stores import Server

SECONDS = 60
QUICK = ("--rounds", "2", "--round-iterations", "5", "--final-iterations", "5", "--l2-path", "0.1", "--l2-path", "0.01")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    with chromium(tmp_path / "browser") as driver:
        yield driver


def shown(browser: Any, address: str, done: Callable[[list[str]], bool]) -> list[str]:
    """The lines of text of a page, once `done` says that they are complete."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get("about:blank")  # the part behind # alone loads no page anew
    browser.get(address)

    def lines(driver: Any) -> list[str]:
        return str(driver.find_element("tag name", "body").text).splitlines()

    WebDriverWait(browser, SECONDS).until(lambda driver: done(lines(driver)))
    return lines(browser)


def test_two_runs_are_compared_in_the_pages(
    browser: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in ("1", "2"):
        command = ["train", "iris", "--seed", seed, "--run-name", f"seed-{seed}", *QUICK, "--quiet"]
        command += ["--tracking-uri", server.uri, *(("--export",) if seed == "2" else ())]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    (last, first) = list_runs(server.uri)
    register(last.run_id, "flowers", None, server.uri)
    pages = ui_hint(server.uri, "2")  # 1 is that of the empty database's only run

    # The printed address: the layout of model training, both runs, one of them registered.
    lines = shown(browser, pages, lambda lines: {"seed-1", "seed-2", "flowers"} <= set(lines))
    assert {"Runs", "Models", "v1"} <= set(lines)
    assert not {"Judges", "Prompts"} & set(lines)

    # The charts: one section for each kind of figure, accuracy before loss.
    charts = shown(
        browser, f"{pages.replace('?', '/runs?')}&compareRunsMode=CHART", lambda lines: "final/valid_loss" in lines
    )
    browser.save_screenshot(str(tmp_path / "charts.png"))
    sections = ["circuit", "final", "model", "penalty", "per class f1", "per class precision", "per class recall"]
    sections += ["time", "train", "valid"]
    assert [line for line in charts if line in sections] == sections
    titles = [line for line in charts if line.startswith("final/")]
    assert titles[:4] == [f"final/test_{name}" for name in ("accuracy", "ece", "f1_macro", "loss")]

    # The page of a run says what its model is called.
    page = shown(browser, f"{server.uri}/#/experiments/2/runs/{last.run_id}", lambda lines: "flowers" in lines)
    assert "final/test_accuracy" in page
    assert "Not registered" not in page
    assert first.metrics["final/test_accuracy"] > 0.5
