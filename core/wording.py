"""Rewrite commands in messages for the installed package, which has no Makefile."""

import re

from core.paths import CHECKOUT

_COMMAND = re.compile(
    r"\bmake (?:-s )?(setup|up|preview|down|rerun|wait|logs|stacks|shell|debug|results|fetch|ui"
    r"|report|compare|import|smoke|kubeconfig|env)\b((?: [A-Z]+=[^\s`<]*[^\s`<.,;:)])*)"
)
_PAGE = re.compile(r"\bdocs/[\w-]+\.md")
_HINT = re.compile(r"\b(?:JOB=NAME|TO=(?:…|DIRECTORY)|RUN=succeeded)")
_ARGUMENTS = ("JOB", "FILE")
"""`make` variables that become positional arguments rather than options."""


def as_typed(text: str) -> str:
    """Return `text` unchanged in a checkout, or else with `slipway` instead of `make` commands."""
    return text if (CHECKOUT / "Makefile").exists() else translated(text)


def translated(text: str) -> str:
    """Return a message with each `make` command replaced by the `slipway` command."""
    text = _PAGE.sub(lambda match: str(CHECKOUT / match[0]), text)
    text = _COMMAND.sub(lambda match: f"slipway {match[1]}{_options(match[2])}", text)
    return _HINT.sub(lambda match: _options(match[0]).lstrip(), text)


def _options(words: str) -> str:
    pairs = (word.partition("=") for word in words.split())
    options = (f"--{name.lower()} " * (name not in _ARGUMENTS) + value for name, _, value in pairs)
    return "".join(f" {option}" for option in options).replace("--wait 0", "--detach")
