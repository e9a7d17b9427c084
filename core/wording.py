"""Commands as the user types them: where the package is installed there is no Makefile."""

import re

from core.paths import CHECKOUT

_COMMAND = re.compile(
    r"\bmake (?:-s )?(setup|up|preview|down|rerun|wait|logs|stacks|shell|debug|results|fetch|ui"
    r"|report|compare|import|smoke|kubeconfig|env)\b((?: [A-Z]+=[^\s`<]*[^\s`<.,;:)])*)"
)
_PAGE = re.compile(r"\bdocs/[\w-]+\.md")
_HINT = re.compile(r"\b(?:JOB=NAME|TO=…|RUN=succeeded)")
_ARGUMENTS = ("JOB", "FILE")
"""What the command takes without an option of that name."""


def as_typed(text: str) -> str:
    """Return a message with its commands as they are here: of make's only in a checkout."""
    return text if (CHECKOUT / "Makefile").exists() else translated(text)


def translated(text: str) -> str:
    """Return a message with each command of make's as the command `slipway` takes it."""
    text = _PAGE.sub(lambda found: str(CHECKOUT / found[0]), text)
    text = _COMMAND.sub(lambda found: f"slipway {found[1]}{_options(found[2])}", text)
    return _HINT.sub(lambda found: _options(found[0]).lstrip(), text)


def _options(words: str) -> str:
    pairs = (word.partition("=") for word in words.split())
    options = (f"--{name.lower()} " * (name not in _ARGUMENTS) + value for name, _, value in pairs)
    return "".join(f" {option}" for option in options)
