"""The browser of the tests reports what a page asks for, and reaches nothing but this machine."""

from pathlib import Path

import pytest

from tests.browser.chromium import find, opened


def test_errors_of_a_page_and_its_requests_are_reported_and_no_network_is_reached() -> None:
    with opened(width=390) as tab:
        with tab.page.expect_console_message(lambda message: message.text == "refused"):
            tab.page.set_content(
                '<title>x</title><script>document.title = innerWidth; fetch("https://example.org/")'
                '.catch(() => console.error("refused"))</script>'
            )
        assert tab.page.title() == "390"
    assert tab.requests == ["https://example.org/"]
    assert "refused" in tab.errors


def test_without_chromium_the_names_that_were_looked_for_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="none of chromium, chromium-browser"):
        find()
