"""A server on this machine's loopback for s3:// and gs:// URLs; moto's, from PyPI."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from core.paths import cache_dir
from tests.trainer import listening

_PACKAGE = "moto[server]==5.2.5"
_PROGRAM = Path(__file__).with_name("stores_program.py")
_INSTALL_LIMIT_SECONDS = 300
_LISTENS = r"listening on (http://\S+)"
BUCKET = "results"
ODD_NAMES = ("epoch=1-acc=[0.9].ckpt", "größe 🚀.json", "a b+c&d#e?f*g%20h.txt")
"""Names of files that a store may take for a pattern, or for an address that is quoted."""


def _installed() -> Path:
    """Return the directory of moto and its dependencies; pip gets them unless they are cached."""
    directory = cache_dir() / "test-tools" / _PACKAGE
    done = directory / "complete"
    if not done.exists():
        options = ("--quiet", "--disable-pip-version-check", "--root-user-action=ignore")
        command = (sys.executable, "-m", "pip", "install", *options, f"--target={directory}")
        ended = subprocess.run(
            (*command, _PACKAGE),
            capture_output=True,
            text=True,
            timeout=_INSTALL_LIMIT_SECONDS,
            check=False,
        )
        if ended.returncode != 0:
            pytest.fail(f"`{' '.join(command)}` failed: {ended.stderr[-2000:]}", pytrace=False)
        done.touch()
    return directory


@contextmanager
def running(directory: Path) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Run it with its bucket; yield the variables by which a program reaches it, by scheme."""
    log = directory / "moto.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(_PROGRAM)],
            env={**os.environ, "PYTHONPATH": str(_installed())},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        address = listening.address(process, log, _LISTENS, name="moto")
        urlopen(Request(f"{address}/{BUCKET}", method="PUT"), timeout=30).close()  # noqa: S310
        account = {"client_email": "", "private_key_id": "", "private_key": ""}
        local = {"disable_oauth": True, "gcs_base_url": address}
        yield {
            "s3": {
                "AWS_ENDPOINT_URL": address,
                "AWS_ALLOW_HTTP": "true",
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "slipway",
                "AWS_SECRET_ACCESS_KEY": "anything",
            },
            "gs": {
                "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**account, **local}),
                "GOOGLE_ALLOW_HTTP": "true",
            },
        }
    finally:
        process.kill()
        process.wait(timeout=10)
