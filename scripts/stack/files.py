"""A stack's two files: the committed stacks/<stack>.yaml, and the person's Pulumi.<stack>.yaml.

Pulumi writes its encryption salt into the latter, so git ignores it; it starts as a copy.
"""

import shutil
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from infra.paths import CHECKOUT


class StackFileError(Exception):
    """There is no such stack, or its file can't be read. The text says what to do."""


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
    close = get_close_matches(stack, known, n=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    raise StackFileError(
        f"There is no stack {stack!r}.{meant} There are: {', '.join(known)}. "
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


def kind_of(stack: str, root: Path = CHECKOUT) -> str:
    """The kind of cluster that the stack asks for; the person's file counts when there is one.

    What the kind may be is checked by the program; here it only decides which tools are needed.

    Raises:
        StackFileError: there is no such stack, or its file is no YAML or names no kind.
    """
    check(stack, root)
    file = own(stack, root) if own(stack, root).exists() else template(stack, root)
    try:
        document: Any = yaml.safe_load(file.read_text())
        kind = document["config"]["slipway:cluster"]["kind"]
    except yaml.YAMLError as error:
        raise StackFileError(f"{file.name} is no YAML: {error}") from error
    except (KeyError, TypeError):
        raise StackFileError(
            f"{file.name}: config: slipway:cluster: kind is missing; see stacks/dev.yaml."
        ) from None
    return str(kind)
