"""Size and speed of the dashboard on made runs: 100 candidates a query, no text twice.

    python benchmarks/dashboard.py

Prints the page's size, the seconds to make it, and the milliseconds a filter takes in Chromium
(median and longest of seven), which must be installed.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from reports.dashboard import dashboard
from reports.page import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from page_worlds import write_run

FILTER = """() => ["d", "dose", "dose renal", "q12", "", "zzz", "kinase"].map((text) => {
    const field = document.getElementById("filter");
    field.value = text;
    const begin = performance.now();
    field.dispatchEvent(new Event("input", { bubbles: true }));
    document.body.getBoundingClientRect();
    return performance.now() - begin;
}).sort((a, b) => a - b)"""


def main() -> None:
    """Measure."""
    print("queries  MB    seconds  filter ms (median, longest)")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for queries in (300, 1000, 5000):
            run = write_run(Path(folder) / str(queries), queries, 100, characters=1000)
            begin = time.perf_counter()
            html = dashboard([run])
            seconds = time.perf_counter() - begin
            file = Path(folder) / f"{queries}.html"
            write_page(file, html)
            page = browser.new_page()
            page.goto(file.as_uri())
            took = page.evaluate(FILTER)
            page.close()
            size = len(html.encode()) / 1e6
            print(f"{queries:7} {size:5.2f} {seconds:8.2f}  {took[3]:.1f}, {took[-1]:.1f}")
        browser.close()


if __name__ == "__main__":
    main()
