"""The environment that `make env` prints; set-up makes Pulumi's home, backend and passphrase."""

import os
import secrets
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from core import files
from core.paths import CHECKOUT, cache_dir, environment_dir, project_dir, state_dir
from scripts.cli.terminal import CommandError

CLUSTER_ADDRESSES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "10.77.0.0/16",  # embedded clusters' nodes
    "10.244.0.0/16",  # pods
    "10.96.0.0/12",  # services
    ".svc",
    ".cluster.local",
)
"""What never goes through a proxy."""

UNSET = (
    "PULUMI_CONFIG_PASSPHRASE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
)
"""Variables that must not be set: even empty, the first overrides the passphrase's file; the second
has each start compile the program again; the others lead to another Python's modules."""

_OTHER_BACKENDS = ("PULUMI_DIY_BACKEND_", "PULUMI_SELF_MANAGED_")
"""Beginnings of variables that move or compress a stack's state: it would look destroyed."""


def pulumi_home() -> Path:
    """Pulumi's own directory, so that the user's ~/.pulumi (logins, plugins) is never touched."""
    return cache_dir() / "pulumi-home"


def backend() -> Path:
    """The directory that holds the state of every stack."""
    return state_dir() / "pulumi"


def passphrase_file() -> Path:
    """The passphrase that encrypts the stacks' secrets."""
    return state_dir() / "passphrase"


def prepare() -> None:
    """Create what is missing, readable by no other user; raise where a passphrase has gone."""
    # Pulumi logs every command at its highest level: up to 500 MB, not all encrypted. It has no
    # setting against that, but goes on without the directory (docs/architecture.md).
    logs = pulumi_home() / "logs"
    if logs.is_dir():
        shutil.rmtree(logs)
    logs.parent.mkdir(parents=True, exist_ok=True)
    logs.touch()
    files.private_directory(state_dir())
    files.private_directory(backend())
    file = passphrase_file()
    if file.exists():
        file.chmod(0o600)
        return
    stacks = sorted((backend() / ".pulumi" / "stacks").rglob("*.json"))
    if stacks:
        names = ", ".join(stack.stem for stack in stacks)
        raise CommandError(
            f"{file} has gone, and the secrets of these stacks are encrypted with it: {names}. "
            f"Put it back, or give them up: end their clusters and delete {backend()}."
        )
    files.write(file, secrets.token_urlsafe(32) + "\n", mode=0o600)


def exports(given: Mapping[str, str]) -> dict[str, str]:
    """The variables to set on top of a given environment. Applying them twice changes nothing."""
    own = (given.get("no_proxy") or given.get("NO_PROXY") or "").split(",")
    direct = ",".join(dict.fromkeys([*filter(None, own), *CLUSTER_ADDRESSES]))
    # The CLI's guard, the environment and the built tools first.
    ours = [str(CHECKOUT / "scripts/bin"), str(environment_dir() / "bin"), str(cache_dir() / "bin")]
    others = [each for each in os.get_exec_path(given) if each not in ours]
    folder = str(project_dir().resolve())
    return {
        **({} if folder == str(CHECKOUT) else {"SLIPWAY_PROJECT": folder}),
        "SLIPWAY_ENVIRONMENT": str(environment_dir()),
        "PATH": os.pathsep.join([*ours, *others]),
        "PULUMI_BACKEND_URL": f"file://{quote(str(backend()))}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(passphrase_file()),
        # A job that fails stops neither the other jobs nor the outputs with their results.
        "PULUMI_CONTINUE_ON_ERROR": "true",
        # The engine would install what is missing without its publisher's checksum.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(pulumi_home()),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Files are UTF-8, whatever the locale.
        "PYTHONUTF8": "1",
        # What goes to clusters bypasses a proxy.
        "no_proxy": direct,
        "NO_PROXY": direct,
    }


def applied(given: Mapping[str, str]) -> dict[str, str]:
    """The complete environment for a child process."""
    unset, everything = _unset(given), {**given, **exports(given)}
    return {name: value for name, value in everything.items() if name not in unset}


def shell(given: Mapping[str, str]) -> str:
    """The same as lines for a POSIX shell to evaluate."""
    lines = [f"unset {name}" for name in _unset(given)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in exports(given).items()]
    return "\n".join(lines)


def _unset(given: Mapping[str, str]) -> list[str]:
    return [*UNSET, *sorted(name for name in given if name.startswith(_OTHER_BACKENDS))]
