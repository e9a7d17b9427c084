"""A stack's two files: the committed stacks/<stack>.yaml, and the user's Pulumi.<stack>.yaml.

The user's file starts as a copy of the committed one. Git ignores it, because Pulumi writes an
encryption salt to it.
"""

import json
import re
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from core.paths import project_dir
from core.problem import meant, quote
from scripts.cli.backend import exists
from scripts.cli.terminal import CommandError

if TYPE_CHECKING:
    from infra.settings import StackSettings

_TOP = {"config", "encryptedkey", "encryptionsalt", "environment", "secretsprovider"}
"""The top-level keys allowed in a stack's file; Pulumi drops others when it writes the file."""


class AsPulumi(yaml.SafeLoader):
    """A YAML loader that reads `on` as a string, as Pulumi does."""

    yaml_implicit_resolvers = yaml.SafeLoader.yaml_implicit_resolvers | {"o": [], "O": []}


def template(stack: str) -> Path:
    """Return the path of the stack's committed file."""
    return project_dir() / "stacks" / f"{stack}.yaml"


def own(stack: str) -> Path:
    """Return the path of the user's file for the stack."""
    return project_dir() / f"Pulumi.{stack}.yaml"


def check(stack: str) -> None:
    """Raise `CommandError` if there is no file for a stack with this name."""
    templates = [*project_dir().glob("stacks/*.yaml")]
    files = (*templates, *project_dir().glob("Pulumi.*.yaml"))
    names = sorted({file.stem.removeprefix("Pulumi.") for file in files})
    if stack in names:
        return
    require_name(stack, f" Stacks: {', '.join(names)}.")
    if exists(stack):
        refresh = f'eval "$(make -s env)" && pulumi config refresh --stack {stack}'
        raise CommandError(
            f"{own(stack).name} is missing, but the stack {stack} still exists.\n"
            f"Restore the file as it was at the stack's last update: {refresh}\n"
            f"Or destroy the stack, which works without the file: make down STACK={stack}"
        )
    way = f"copy a file from stacks/ to {own(stack).name}"
    raise CommandError(
        f"There is no stack {stack!r}.{meant(stack, names)} Stacks: {', '.join(names) or 'none'}. "
        f"To create one, {way if templates else f'slipway init --stack {stack}'}."
    )


def require_name(stack: str, more: str = "") -> None:
    """Raise `CommandError`, with `more` appended, if Pulumi does not accept a stack name."""
    # https://www.pulumi.com/docs/iac/concepts/stacks/#create-stack
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", stack):
        allowed = "use only letters, digits, dots, hyphens and underscores."
        raise CommandError(f"{stack!r} is not a valid stack name: {allowed}{more}")


def job_name(program: Path) -> str:
    """Return a name for a job that runs `program`, different from all names in the catalogue."""
    from jobs.config import CATALOG  # noqa: PLC0415 - it takes a second

    name = re.sub("[^a-z0-9]+", "-", program.stem.lower()).strip("-")[:36].strip("-") or "job"
    return f"my-{name}" if name in CATALOG or not name[0].isalpha() else name


def ensure_own(stack: str) -> Path:
    """Return the path of the user's file, which is copied from the committed file if missing.

    Raises `CommandError` if the stack's settings can't be read.
    """
    settings_of(stack)
    file = own(stack)
    if not file.exists():
        shutil.copyfile(template(stack), file)
    return file


def cluster_of(stack: str) -> Mapping[str, Any]:
    """Return the unvalidated cluster settings in the stack's file; {} if they are not a map."""
    cluster = settings_of(stack).get("slipway:cluster")
    return cluster if isinstance(cluster, dict) else {}


def jobs_of(stack: str) -> list[str]:
    """Return the names of the jobs in the stack's file, or [] if the file can't be read."""
    with suppress(CommandError):
        jobs = settings_of(stack).get("slipway:jobs")
        return [str(name) for name in jobs] if isinstance(jobs, dict) else []
    return []


def require_job(stack: str, job: str, known: Collection[str], more: str = "") -> None:
    """Raise unless `job` is one of the stack's jobs; the error lists their names, then `more`."""
    if job in known:
        return
    if job in jobs_of(stack):
        raise CommandError(f"Job {job} has not run yet; run `make up STACK={stack}`.{more}")
    listed = f"Jobs in {stack}: {', '.join(sorted(known))}." if known else f"{stack} has no jobs."
    what = f"There is no job {job!r}.{meant(job, known)}" if job else "Specify the job: JOB=NAME."
    raise CommandError(f"{what} {listed}{more}")


def without_runs(stack: str) -> CommandError:
    """Return the error for a stack that has no runs."""
    return CommandError(f"Stack {stack} has no runs yet; `make up STACK={stack}` runs its jobs.")


def load_settings(stack: str) -> "StackSettings | None":
    """Return the stack's settings, or None if they are invalid (`up` and `preview` say why)."""
    from infra.settings import SettingsError  # noqa: PLC0415 - it takes a second

    with suppress(CommandError, SettingsError):
        return valid_settings(stack)
    return None


def valid_settings(stack: str) -> "StackSettings":
    """Return the stack's settings, or raise a `SettingsError` that lists all problems."""
    from infra import settings  # noqa: PLC0415 - it takes a second

    config = settings_of(stack)
    # As Pulumi passes them to the program, except that secrets stay encrypted.
    others = {key: each for key, each in config.items() if not isinstance(each, str)}
    texts = {key: json.dumps(each, default=str) for key, each in others.items()}
    secrets = [key for key, each in others.items() if isinstance(each, dict) and "secure" in each]
    return settings.parse({**config, **texts}, stack, secrets)


def settings_of(stack: str) -> Mapping[str, Any]:
    """Return the settings under `config` in the user's file, or else in the committed file."""
    check(stack)
    file = own(stack) if own(stack).exists() else template(stack)
    try:
        with file.open("rb") as stream:  # so that an error names the file
            document = yaml.load(stream, AsPulumi)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise _unreadable(file, " ".join(str(error).split())) from error
    if not isinstance(document, dict | None):
        raise _unreadable(file, "it must be a map, with the settings under `config:`")
    if others := ", ".join(map(quote, {**(document or {})}.keys() - _TOP)):
        raise _unreadable(file, f"{others} can't be at the top level; put settings under `config:`")
    settings = (document or {}).get("config")
    if not isinstance(settings, dict | None):
        raise _unreadable(file, f"{quote(settings)} under `config:` is not allowed; use a map")
    return settings or {}


def _unreadable(file: Path, reason: str) -> CommandError:
    return CommandError(
        f"{file.name} can't be read, so nothing was changed: {reason}. "
        "Correct it and run the command again."
    )
