"""The environment variables that `make env` prints, with Pulumi's home, backend and passphrase."""

import os
import secrets
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from core import files
from core.paths import BACKEND_ID, CHECKOUT, cache_dir, environment_dir, project_dir, state_dir
from scripts.cli.terminal import CommandError

CLUSTER_ADDRESSES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "10.77.0.0/16",  # nodes of embedded clusters
    "10.244.0.0/16",  # pods
    "10.96.0.0/12",  # services
    ".svc",
    ".cluster.local",
)
"""Addresses that are reached without a proxy."""

UNSET = (
    "PULUMI_CONFIG_PASSPHRASE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
)
"""Variables that must not be set: the first, even if empty, overrides the passphrase file; the
second makes every start recompile the program; the others select a different Python's modules."""


def pulumi_home() -> Path:
    """Return Pulumi's home directory. The user's own, ~/.pulumi, is not used."""
    return cache_dir() / "pulumi-home"


def backend() -> Path:
    """Return the directory that holds the state of every stack."""
    return state_dir() / "pulumi"


def passphrase_file() -> Path:
    """Return the file that contains the passphrase for the stacks' secrets."""
    return state_dir() / "passphrase"


def prepare() -> None:
    """Create the directories and the passphrase if they are missing; only the user can read them.

    Raises `CommandError` if the passphrase is missing but existing stacks need it.
    """
    # Pulumi logs every command at its highest level: up to 500 MB, partly unencrypted. No setting
    # disables that, but Pulumi works without the directory (docs/architecture.md).
    logs = pulumi_home() / "logs"
    if logs.is_dir():
        shutil.rmtree(logs)
    logs.parent.mkdir(parents=True, exist_ok=True)
    logs.touch()
    files.private_directory(state_dir())
    files.private_directory(backend())
    if not (own := backend() / BACKEND_ID).exists():
        files.write(own, secrets.token_hex(4), mode=0o600)
    file = passphrase_file()
    if file.exists():
        file.chmod(0o600)
        return
    if stacks := sorted((backend() / ".pulumi" / "stacks").rglob("*.json")):
        names = ", ".join(stack.stem for stack in stacks)
        raise CommandError(
            f"{file} is missing, but the secrets of these stacks are encrypted with it: {names}. "
            f"Restore the file, or abandon the stacks: remove their clusters and {backend()}."
        )
    files.write(file, secrets.token_urlsafe(32) + "\n", mode=0o600)


def exports(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to the environment `inherited`. Adding them twice is harmless."""
    own = (inherited.get("no_proxy") or inherited.get("NO_PROXY") or "").split(",")
    direct = ",".join(dict.fromkeys([*filter(None, own), *CLUSTER_ADDRESSES]))
    # The wrapped CLI, the Python environment and the built tools come first.
    ours = [str(CHECKOUT / "scripts/bin"), str(environment_dir() / "bin"), str(cache_dir() / "bin")]
    others = [each for each in os.get_exec_path(inherited) if each not in ours]
    folder = str(project_dir().resolve())
    return {
        **({} if folder == str(CHECKOUT) else {"SLIPWAY_PROJECT": folder}),
        "SLIPWAY_ENVIRONMENT": str(environment_dir()),
        "PATH": os.pathsep.join([*ours, *others]),
        "PULUMI_BACKEND_URL": f"file://{quote(str(backend()))}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(passphrase_file()),
        # After a failed job, the other jobs still run and the outputs still contain results.
        "PULUMI_CONTINUE_ON_ERROR": "true",
        # The engine would install missing plugins without checking the publisher's checksum.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(pulumi_home()),
        "PULUMI_PARALLEL": inherited.get("PULUMI_PARALLEL") or "256",  # jobs side by side
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Files are UTF-8, whatever the locale.
        "PYTHONUTF8": "1",
        "XDG_CACHE_HOME": str(cache_dir().parent),  # absolute, for scripts/plugins
        # Traffic to clusters bypasses any proxy.
        **dict.fromkeys(("no_proxy", "NO_PROXY"), direct),
    }


def applied(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the complete environment for a child process, based on `inherited`."""
    unset, everything = _unset(inherited), {**inherited, **exports(inherited)}
    return {name: value for name, value in everything.items() if name not in unset}


def shell(inherited: Mapping[str, str]) -> str:
    """Return the changes to the environment as lines that a POSIX shell can evaluate."""
    # The shell may have evaluated another folder's lines, with its SLIPWAY_PROJECT.
    lines = [f"unset {name}" for name in ("SLIPWAY_PROJECT", *_unset(inherited))]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in exports(inherited).items()]
    return "\n".join(lines)


def _unset(inherited: Mapping[str, str]) -> list[str]:
    # Variables with these prefixes move or compress the state, so that stacks look destroyed.
    others = ("PULUMI_DIY_BACKEND_", "PULUMI_SELF_MANAGED_")
    return [*UNSET, *sorted(name for name in inherited if name.startswith(others))]
