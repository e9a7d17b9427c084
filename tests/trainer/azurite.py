"""Azure's own emulator of Blob Storage, from npm, on this machine's loopback."""

import base64
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.paths import cache_dir
from tests.trainer import listening
from tests.trainer.stores import BUCKET

_PACKAGE = "azurite@3.37.0"
_ACCOUNT = "slipway"
_INSTALL_LIMIT_SECONDS = 300
_LISTENS = r"successfully listen\S* \S+ (http://\S+)"
_MAKE_CONTAINER = "import fsspec, sys; fsspec.filesystem('abfs').mkdir(sys.argv[1])"


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
            command, capture_output=True, text=True, timeout=_INSTALL_LIMIT_SECONDS, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        text = f"{error}; the test of Azure Blob Storage needs node and npm, install them"
        pytest.fail(text, pytrace=False)
    if said.returncode != 0:
        pytest.fail(f"`{' '.join(command)}` failed: {said.stderr[-2000:]}", pytrace=False)
    done.touch()
    return program


@contextmanager
def running(directory: Path) -> Iterator[dict[str, str]]:
    """Run the emulator with its container; yield the variables by which a program reaches it."""
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
        account = f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={key}"
        variables = {
            "AZURE_STORAGE_CONNECTION_STRING": f"{account};BlobEndpoint={address}/{_ACCOUNT};"
        }
        command = (sys.executable, "-c", _MAKE_CONTAINER, BUCKET)
        subprocess.run(command, env={**os.environ, **variables}, check=True)
        yield variables
    finally:
        process.kill()
        process.wait(timeout=10)
