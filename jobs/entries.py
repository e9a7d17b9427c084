"""What starts something among the files of a script, as their syntax shows. Pure."""

import ast
from collections.abc import Mapping

from core.problem import choices

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_HARMLESS = frozenset(
    {
        *("getLogger", "TypeVar", "namedtuple", "getenv", "get", "device", "compile", "Path"),
        *("abspath", "dirname", "join", "resolve", "bool", "int", "float", "str", "len", "range"),
        *("dict", "frozenset", "list", "set", "tuple"),
    }
)
"""Calls of these names, beside definitions, prepare something at most."""
_MAIN = "__main__.py"


def only_defines(source: bytes) -> bool:
    """Return whether a module defines functions or classes and, run as a program, calls none.

    What this Python can't parse may be a program of a newer one.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    others = (each for each in body if not isinstance(each, (*_DEFINITIONS, *_IMPORTS)))
    acts = any(_acts(node) for each in others for node in ast.walk(each))
    return not acts and any(isinstance(each, _DEFINITIONS) for each in body)


def _acts(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name not in _HARMLESS


def instead(entry: str, sources: Mapping[str, bytes]) -> str:
    """Return what else could be started than `entry`: files by their text, and packages."""
    guarded = [name for name, text in sources.items() if b"__main__" in text]
    packages = [name.removesuffix(f"/{_MAIN}") for name in sources if name.endswith(f"/{_MAIN}")]
    files = [name for name in guarded if name != entry and not name.endswith(_MAIN)]
    words = [f"`command: [python3, -m, {each.replace('/', '.')}]`" for each in packages]
    if files or not packages:
        words.insert(0, f"`scriptEntry`, {choices(entry, files or [*{*sources} - {entry}])}")
    return " or ".join(words)
