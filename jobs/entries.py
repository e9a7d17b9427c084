"""What is started of the files of a script, as far as their syntax shows. Pure."""

import ast
from collections.abc import Mapping

from core.problem import choices, quote

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HARMLESS = frozenset(
    {
        *("getLogger", "TypeVar", "namedtuple", "getenv", "get", "device", "compile", "Path"),
        *("abspath", "dirname", "join", "resolve", "bool", "int", "float", "str", "len", "range"),
        *("dict", "frozenset", "list", "set", "tuple"),
    }
)
"""What a module of definitions may call, besides: it prepares something at most."""
_MAIN = "__main__.py"


def wrong(entry: str, files: Mapping[str, bytes]) -> str | None:
    """Return why `entry` can't be started, and what can; None when nothing is wrong."""
    programs = {name: files[name] for name in files if name.endswith(".py")}
    others = _others(entry, programs)
    if entry not in programs:
        return f"{quote(entry)} is no Python file in the folder; {others}"
    if not only_defines(programs[entry]):
        return None
    return (
        f"{quote(entry)} defines functions or classes and calls none, so it would end at once and "
        'have done nothing; let it end with `if __name__ == "__main__": main()`'
        f"{f', or start something else: {others}' if len(programs) > 1 else ''}"
    )


def only_defines(source: bytes) -> bool:
    """Return whether a module defines functions or classes and, run as a program, calls none.

    What this Python can't parse may be a program of a newer one.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    others = (each for each in body if not isinstance(each, _DEFINITIONS))
    calls = [n.func for each in others for n in ast.walk(each) if isinstance(n, ast.Call)]
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}
    return names <= _HARMLESS and any(isinstance(each, _DEFINITIONS) for each in body)


def _others(entry: str, programs: Mapping[str, bytes]) -> str:
    """Return what could be started: files that say so, or else any, and packages."""
    packages = [name.removesuffix(f"/{_MAIN}") for name in programs if name.endswith(f"/{_MAIN}")]
    files = [name for name in programs if name != entry and not name.endswith(_MAIN)]
    guarded = [name for name in files if b"__main__" in programs[name]]
    found = [f"set `command: [python, -m, {each.replace('/', '.')}]` instead" for each in packages]
    if guarded or not packages:
        found.insert(0, choices(entry, guarded or files))
    return "; or ".join(found)
