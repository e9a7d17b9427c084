"""Azure's own emulator of Blob Storage, from npm, on this machine's loopback."""

import base64
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.paths import cache_dir
from tests.trainer import listening

_PACKAGE = "azurite@3.37.0"
_ACCOUNT = "slipway"
_INSTALL_LIMIT_SECONDS = 300
_LISTENS = r"successfully listen\S* \S+ (http://\S+)"


@dataclass(frozen=True)
class Storage:
    """An account of the emulator, made for one test run."""

    connection_string: str
    process: subprocess.Popen[bytes]


def installed() -> Path:
    """Return the emulator's program; npm gets it when it is not in the cache yet."""
    directory = cache_dir() / "test-tools" / _PACKAGE
    program = directory / "node_modules/.bin/azurite-blob"
    done = directory / "complete"
    if done.exists():
        return program
    directory.mkdir(parents=True, exist_ok=True)
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier")
    command = ("npm", "install", "--prefix", str(directory), *options, _PACKAGE)
    try:
        said = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_INSTALL_LIMIT_SECONDS,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        text = f"{error}; the test of Azure Blob Storage needs node and npm, install them"
        pytest.fail(text, pytrace=False)
    if said.returncode != 0:
        pytest.fail(f"`{' '.join(command)}` failed: {said.stderr[-2000:]}", pytrace=False)
    done.touch()
    return program


@contextmanager
def running(directory: Path) -> Iterator[Storage]:
    """Run the emulator with its data in memory and its log in `directory`."""
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    log = directory / "azurite.log"
    options = ("--blobHost=127.0.0.1", "--blobPort=0", "--inMemoryPersistence", "--silent")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(installed()), *options, "--disableTelemetry", "--skipApiVersionCheck"],
            cwd=directory,
            env={**os.environ, "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{key}"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        address = listening.address(process, log, _LISTENS, name="azurite")
        yield Storage(
            f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={key};"
            f"BlobEndpoint={address}/{_ACCOUNT};",
            process,
        )
    finally:
        process.kill()
        process.wait(timeout=10)
