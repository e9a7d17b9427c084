"""Every message, comment and page that points to a page of the documentation points to one."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_PAGES = sorted((ROOT / "docs").glob("*.md"))
_POINTER = re.compile(r"(?<![\w./-])(?P<page>docs/[\w-]+\.md|README\.md)(?:#(?P<anchor>[\w-]+))?")
_LINK = re.compile(r"\]\((?P<page>[^)#\s]*)(?:#(?P<anchor>[\w-]+))?\)")
_MODULE = re.compile(r"`([\w-]+/[\w./-]+\.(?:py|yaml))(?:::\w+)?`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return [file for name in listing.splitlines() if (file := ROOT / name).is_file()]


@cache
def anchors(page: Path) -> set[str]:
    """Return a page's anchors, as GitHub makes them of its headings."""
    headings = _HEADING.findall(_CODE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def lost(page: Path, anchor: str) -> bool:
    return not page.exists() or bool(anchor and anchor not in anchors(page))


def test_what_the_code_points_to_is_there() -> None:
    files = tracked("*.py", "*.yaml", "Makefile", "*Dockerfile*")
    found = [(file, *pointer) for file in files for pointer in _POINTER.findall(file.read_text())]
    assert found
    assert [each for each in found if lost(ROOT / each[1], each[2])] == []


@pytest.mark.parametrize("page", tracked("*.md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_pages_links_and_the_modules_that_it_names_are_there(page: Path) -> None:
    text = page.read_text()
    for path, anchor in _LINK.findall(_CODE.sub("", text)):
        if ":" not in path:
            target = page.parent / path if path else page
            assert not lost(target, anchor if target.suffix == ".md" else ""), (path, anchor)
    folders = (ROOT, ROOT / "tests", page.parent)
    named = _MODULE.findall(text)
    assert [path for path in named if not any((each / path).exists() for each in folders)] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    missing = {page.name for page in _PAGES if f"]({page.name}" not in index}
    assert missing == {"README.md"}, "the index itself"


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{each.name}" for each in _PAGES)])
def test_a_page_has_at_most_300_lines_and_the_readme_150(page: str) -> None:
    most = 150 if page == "README.md" else 300
    assert len((ROOT / page).read_text().splitlines()) <= most
