"""`slipway init`: write a stack's file, and the missing files that it refers to."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from clusters.kinds import CLUSTERS, settings_of_template
from core.paths import CHECKOUT, project_dir
from core.problem import choices, quote, raised
from infra.settings import SettingsError
from scripts.cli.backend import exists
from scripts.cli.config import check, job_name, own, require_name, valid_settings
from scripts.cli.from_yaml import as_yaml
from scripts.cli.terminal import CommandError, echo


def init(
    stack: str, cluster: str | None, script: str | None, ranks: int | None, *, build: bool
) -> int:
    """Write a stack's file; return 0. In a terminal, prompt for each argument that is None.

    Also write the program and, with `build`, a Dockerfile, if these do not exist. Existing files
    are never changed. Raises `CommandError` if the stack has a file or still exists.
    """
    require_name(stack)
    file = own(stack)
    if file.exists():
        another = "Edit it, or create another stack: slipway init --stack NAME"
        raise CommandError(f"{file.name} already exists and was not changed. {another}")
    if exists(stack):
        check(stack)  # raises, and explains how to restore the file
    kind = str(_answer("Cluster", cluster, "embedded", click.Choice([*CLUSTERS])))
    script = str(_answer("Script", script, "train/train.py" if build else "train.py", click.STRING))
    processes: int = _answer("Ranks", ranks, 2, click.IntRange(min=1))
    program = Path(script)
    if problems := [*_problems(kind, program, build=build)]:
        raise CommandError("\n".join(["Nothing was written:", *problems]))
    own_image = {"build": {"context": str(program.parent)}}
    job = {**(own_image if build else {"script": script}), "workers": processes - 1}
    templates = {program: "train.py"}
    if build:
        templates[program.with_name("Dockerfile")] = "Dockerfile"
    written = [path for path in templates if not (project_dir() / path).exists()]
    for path in written:
        place = project_dir() / path
        place.parent.mkdir(parents=True, exist_ok=True)
        text = (CHECKOUT / "examples" / "start" / templates[path]).read_text()
        place.write_text(text.replace("train.py", program.name))
    settings = {"kind": kind, **settings_of_template(kind)}
    document = {"slipway:cluster": settings, "slipway:jobs": {job_name(program): job}}
    file.write_text(as_yaml({"config": document}))
    echo(f"Wrote {', '.join([*map(str, written), file.name])}.")
    # What is still missing, such as an existing cluster's address.
    missing = raised(partial(valid_settings, stack), SettingsError)
    echo(missing or "Next: slipway up" + ("" if stack == "dev" else f" --stack {stack}"))
    return 0


def _problems(kind: str, program: Path, *, build: bool) -> Iterator[str]:
    if kind not in CLUSTERS:
        yield f"--cluster: {quote(kind)} is not a cluster kind; {choices(kind, CLUSTERS.keys())}"
    takes = None
    if program.suffix != ".py" and (build or not (project_dir() / program).is_dir()):
        takes = "a Python file (.py)"
    elif build and program.parent == Path():
        takes = "a file in a folder, such as train/train.py: --build copies the folder to the image"
    if takes is not None:
        yield f"--script: {quote(str(program))} is not allowed; it must be {takes}"


def _answer(question: str, answer: object, default: object, kind: Any) -> Any:
    if answer is not None or not sys.stdin.isatty():
        return default if answer is None else answer
    return click.prompt(question, default=default, type=kind, err=True)
