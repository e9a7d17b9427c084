"""The commands that README.md tells a person to type, so that tests run those very commands."""

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
_BLOCK = re.compile(r"^```sh\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    """Return the text under each second-level heading."""
    _, *parts = re.split(r"^## (.+)$", README.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def block(title: str) -> str:
    """Return the shell commands under the heading `title`, as they stand."""
    found = "".join(_BLOCK.findall(sections()[title]))
    assert found, f"README.md has no ```sh block under {title!r}"
    return found


def commands(title: str) -> list[str]:
    """Return the commands under the heading `title`, one a line."""
    return block(title).splitlines()


def all_commands() -> list[str]:
    """Return every command of README.md and of the pages in docs/, each once."""
    pages = [README, *(README.parent / "docs").glob("*.md")]
    blocks = [body for page in pages for body in _BLOCK.findall(page.read_text())]
    return sorted({line for body in blocks for line in body.splitlines()})


def settings() -> list[str]:
    """Return every whole file of a stack's settings that it shows."""
    whole = re.compile(r"^```yaml\n(config:\n.*?)^```$", re.MULTILINE | re.DOTALL)
    return whole.findall(README.read_text())


def difference() -> tuple[list[str], list[str]]:
    """Return the lines of a plain script that it takes away, and those that it adds."""
    [body] = re.findall(r"^```diff\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    lines = body.splitlines()
    taken, added = ([each[1:] for each in lines if each[0] == sign] for sign in "-+")
    return taken, added
