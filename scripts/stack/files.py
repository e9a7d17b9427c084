"""A stack's two files: the committed stacks/<stack>.yaml, and the person's Pulumi.<stack>.yaml.

Pulumi writes its encryption salt into the latter, so git ignores it; it starts as a copy.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.paths import CHECKOUT
from infra.words import meant


class StackFileError(Exception):
    """There is no such stack. The text says what to do."""


def template(stack: str, root: Path = CHECKOUT) -> Path:
    """Where the stack's committed file is."""
    return root / "stacks" / f"{stack}.yaml"


def own(stack: str, root: Path = CHECKOUT) -> Path:
    """Where the person's file for the stack is."""
    return root / f"Pulumi.{stack}.yaml"


def names(root: Path = CHECKOUT) -> list[str]:
    """The stacks that there are: a file in stacks/, or one of the person's own."""
    committed = {file.stem for file in (root / "stacks").glob("*.yaml")}
    personal = {file.stem.removeprefix("Pulumi.") for file in root.glob("Pulumi.*.yaml")}
    return sorted(committed | personal)


def check(stack: str, root: Path = CHECKOUT) -> None:
    """Raises `StackFileError` unless there is a stack of this name."""
    known = names(root)
    if stack in known:
        return
    raise StackFileError(
        f"There is no stack {stack!r}.{meant(stack, known)} There are: {', '.join(known)}. "
        f"A new one is a file of yours, {own(stack, root).name}, that starts as a copy of one in "
        "stacks/."
    )


def ensure_own(stack: str, root: Path = CHECKOUT) -> Path:
    """The person's file, copied from the committed one when there is none yet.

    Raises:
        StackFileError: there is no such stack.
    """
    check(stack, root)
    file = own(stack, root)
    if not file.exists():
        shutil.copyfile(template(stack, root), file)
    return file


def cluster_of(stack: str, root: Path = CHECKOUT) -> Mapping[str, Any]:
    """What the stack's file says of its cluster; the person's file counts when there is one.

    Whether that is allowed, the program checks and says; so whatever can't be read is empty here.

    Raises:
        StackFileError: there is no such stack.
    """
    check(stack, root)
    file = own(stack, root) if own(stack, root).exists() else template(stack, root)
    try:
        cluster = yaml.safe_load(file.read_text())["config"]["slipway:cluster"]
    except (yaml.YAMLError, KeyError, TypeError):
        return {}
    return cluster if isinstance(cluster, dict) else {}
