"""A real browser without a window."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_OPTIONS = (
    *("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"),
    *("disable-component-update", "disable-sync", "window-size=1500,2600"),
)


@contextmanager
def chromium(profile: Path, logs: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Chromium under selenium's driver, with those logs; the test is skipped without them, and fails on CI."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        reason = f"{' and '.join(missing)} missing: apt-get install chromium chromium-driver"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for option in (*_OPTIONS, f"user-data-dir={profile}"):
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", dict(logs or {}))
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()
