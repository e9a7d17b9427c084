"""What is started of the files of a script, as far as their syntax shows. Pure."""

import ast
from collections.abc import Mapping

from core.problem import choices, quote
from jobs.model.program import DEFAULT_ENTRY

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HARMLESS = {
    "getLogger",
    "TypeVar",
    "namedtuple",
    "getenv",
    "get",
    "int",
    "float",
    "Path",
    "device",
}
"""What a module of definitions may call besides: that prepares something at most."""
_MAIN = "/__main__.py"


def default(files: Mapping[str, bytes]) -> str:
    """Return what is started of a folder whose job names nothing: train.py, or its only program."""
    top = [name for name in files if name.endswith(".py") and "/" not in name]
    guarded = [name for name in top if b"__main__" in files[name]]
    only = guarded or top
    return only[0] if DEFAULT_ENTRY not in files and len(only) == 1 else DEFAULT_ENTRY


def wrong(entry: str, files: Mapping[str, bytes]) -> str | None:
    """Return why `entry` can't be started, and what can; None when nothing is wrong."""
    programs = {name: files[name] for name in files if name.endswith(".py")}
    if entry not in programs:
        return f"{quote(entry)} is no Python file in the folder; {_others(entry, programs)}"
    if not only_defines(programs[entry]):
        return None
    more = f", or start something else: {_others(entry, programs)}" if len(programs) > 1 else ""
    return (
        f"{quote(entry)} defines functions or classes and calls none, so it would end at once and "
        f'have done nothing; let it end with `if __name__ == "__main__": main()`{more}'
    )


def only_defines(source: bytes) -> bool:
    """Return whether a module defines functions or classes and, run as a program, calls none.

    What this Python can't parse may be a program of a newer one.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    others = [each for each in body if not isinstance(each, _DEFINITIONS)]
    calls = [n.func for each in others for n in ast.walk(each) if isinstance(n, ast.Call)]
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}
    return len(others) < len(body) and names <= _HARMLESS


def _others(entry: str, programs: Mapping[str, bytes]) -> str:
    """Return what could be started: files with a guard, or else any, and packages."""
    packages = [name.removesuffix(_MAIN).replace("/", ".") for name in programs if _MAIN in name]
    files = [name for name in programs if name != entry and _MAIN not in f"/{name}"]
    guarded = [name for name in files if b"__main__" in programs[name]]
    found = [choices(entry, guarded or files)] if guarded or not packages else []
    found += [f"set `command: [python, -m, {each}]` instead" for each in packages]
    return "; or ".join(found)
