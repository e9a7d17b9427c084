"""Takes docs/report.png, a picture of the report on a job's last run.

.venv-test/bin/python -m tests.docs.screenshot STACK JOB, after `make up`.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from core.paths import CHECKOUT
from scripts.cli.runs.report import page, read
from tests.browser.chromium import opened

PICTURE = CHECKOUT / "docs" / "report.png"
_WIDTH, _HEIGHT = 1100, 1000
_CHARTS = "document.querySelectorAll('.charts .main-svg').length > 0"


def main() -> None:
    """Take the picture: the head of the job's section, and as many charts as fit."""
    stack, job = sys.argv[1:]
    with TemporaryDirectory() as directory, opened(_WIDTH, _HEIGHT) as tab:
        file = Path(directory) / "report.html"
        file.write_text(page(stack, read(stack, job)), encoding="utf-8")
        tab.page.goto(file.as_uri())
        tab.page.wait_for_function(_CHARTS)
        tab.page.evaluate(f"document.getElementById('{job}').scrollIntoView()")
        tab.page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
