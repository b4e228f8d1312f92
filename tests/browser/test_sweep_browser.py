"""A sweep's page in a real browser."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from sweep_records import write_sweep

from reports.sweep import read_sweep, to_html

OFF = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (375, "dark")])
def test_page_renders_asks_nothing_and_keeps_text_as_text(
    tmp_path: Path, width: int, scheme: str
) -> None:
    failures = [{"reason": EVIL, "trials": [40], "parameters": {"merge.rrf_k": 3.0}}]
    folder = write_sweep(tmp_path / "sweep", trials=40, failed=1, failures=failures)
    page_file = tmp_path / "page.html"
    page_file.write_text(to_html(read_sweep(folder)), "utf-8")
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed"
    errors: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OFF)
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(page_file.as_uri())
        assert page.locator("#verdict .lead").inner_text().startswith("Not distinguishable")
        assert page.locator("#slices svg").count() == 2
        # Every picture is as wide as it is meant to be, and has something on it.
        for box in [one.bounding_box() for one in page.locator("#slices svg").all()]:
            assert box is not None
            assert box["width"] > 100
        assert page.locator("#history path.dots").get_attribute("d").count("M") == 40
        assert EVIL in page.locator("#failures").inner_text()
        assert page.locator("img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(18, 21, 24)" if scheme == "dark" else "rgb(250, 250, 248)")
        browser.close()
    assert errors == []
    assert [url for url in requests if not url.startswith("file:")] == []
