"""The comparison's page in a real browser."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from run_worlds import write_run

from experiments.comparison.compare import compare_runs
from reports.regression import to_html

OFF = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
# Words of the tables that take more than one line.
BROKEN = """() => {
  const found = [], range = document.createRange();
  for (const cell of document.querySelectorAll("table:not(.differs) th, table:not(.differs) td")) {
    const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      for (const word of walk.currentNode.data.matchAll(/[A-Za-z0-9_]+/g)) {
        range.setStart(walk.currentNode, word.index);
        range.setEnd(walk.currentNode, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => box.top));
        if (lines.size > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""
EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (375, "dark")])
def test_page_renders_asks_nothing_and_keeps_text_as_text(
    tmp_path: Path, width: int, scheme: str
) -> None:
    values = [0.5] * 20
    one = write_run(tmp_path / "a", {"ndcg@10": values}, {"text": [EVIL] * 20})
    other = write_run(tmp_path / "b", {"ndcg@10": [0.9] * 8 + values[8:]}, {"text": [EVIL] * 20})
    page_file = tmp_path / "page.html"
    page_file.write_text(to_html(compare_runs(one, [other], labels=["old", "new"])))
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
        assert page.locator("h1").inner_text() == "old against new"
        # Eight queries gained .4: 8 * .4 / 20 = .16
        assert "+0.1600" in page.locator("main").inner_text()
        assert page.locator("svg.difference").count() == 1
        assert page.locator("table.movers tbody tr").count() == 8
        assert EVIL in page.locator("table.movers").inner_text()
        assert page.locator("img").count() == 0
        # No word of a table is broken: each stands on one line of its cell.
        assert page.evaluate(BROKEN) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()
    assert errors == []
    assert [url for url in requests if not url.startswith("file:")] == []
