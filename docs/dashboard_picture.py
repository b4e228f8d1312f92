"""Draw docs/dashboard.png: the head of a dashboard, as a browser shows it.

    python docs/dashboard_picture.py PAGE

PAGE is a page that `make demo` or `assay dashboard` wrote. Needs Debian's chromium.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1200, 1000
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


def main() -> None:
    """Draw."""
    page_file = Path(sys.argv[1]).resolve()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(QUIET)
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(page_file.as_uri())
        page.screenshot(path=Path(__file__).with_name("dashboard.png"))
        browser.close()


if __name__ == "__main__":
    main()
