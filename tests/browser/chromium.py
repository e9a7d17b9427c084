"""Headless Chromium for tests: the system's own, driven by playwright, without any network.

`make test` calls this module, which installs Debian's package where no Chromium is found.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import ConsoleMessage, Page, Request, sync_playwright
from rich.console import Console

from scripts.setup import apt
from scripts.setup.steps import Steps

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PACKAGE = "chromium"
_LIMIT_MS = 60_000
_OPTIONS = (
    "--no-sandbox",  # it refuses to run as root with one
    "--disable-dev-shm-usage",  # containers have 64 MB of it
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)


@dataclass
class Tab:
    """A page, with its errors and its requests since it was opened."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(_LIMIT_MS)
        self.page.on("console", self._see_message)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._see_request)

    def _see_message(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.errors.append(message.text)

    def _see_request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.requests.append(request.url)


@contextmanager
def opened(width: int = 1280, height: int = 900) -> Iterator[Tab]:
    """Start Chromium with an empty page of a size in pixels, and end it afterwards."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=[*_OPTIONS])
        try:
            size = {"width": width, "height": height}
            yield Tab(browser.new_page(viewport=size))  # type: ignore[arg-type]  # its own TypedDict
        finally:
            browser.close()


def find() -> str:
    """Return the system's Chromium.

    Raises:
        FileNotFoundError: no program of these names is on PATH.
    """
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        names = ", ".join(_NAMES)
        raise FileNotFoundError(f"the tests need Chromium, and none of {names} is on PATH")
    return found


def main() -> int:
    """Install Chromium unless there is one; return 1 with the reason where that is not possible."""
    try:
        find()
    except FileNotFoundError as error:
        with Steps(Console(stderr=True)) as steps:
            if (obstacle := apt.install([_PACKAGE], steps)) is not None:
                print(f"{error}, and {obstacle}. Install it, then try again.", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
