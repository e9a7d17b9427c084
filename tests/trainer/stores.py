"""Servers on this machine's loopback that answer as S3 and as Google Cloud Storage do."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.paths import cache_dir
from tests.trainer import listening

_MOTO = "moto[server]==5.2.5"
_GCS = "github.com/fsouza/fake-gcs-server@v1.52.3"
_INSTALL_LIMIT_SECONDS = 900
BUCKET = "results"


@contextmanager
def s3(directory: Path) -> Iterator[Mapping[str, str]]:
    """Run moto's server; yield the variables by which a program reaches it."""
    packages = _installed("moto@5.2.5", [
        sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore",
        "--disable-pip-version-check", "--target", "{}", _MOTO,
    ])  # fmt: skip
    command = [sys.executable, "-m", "moto.server", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    pattern = r"Running on (http://127\.0\.0\.1:\d+)"
    with _running(directory, command, environment, pattern) as address:
        yield {
            "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "slipway", "AWS_SECRET_ACCESS_KEY": "not a secret",
        }  # fmt: skip


@contextmanager
def gs(directory: Path) -> Iterator[Mapping[str, str]]:
    """Run fake-gcs-server; yield the variables by which a program reaches it."""
    program = _installed(_GCS.replace("/", "-"), ["go", "install", _GCS]) / "fake-gcs-server"
    options = ["-scheme=http", "-host=127.0.0.1", "-port=0", "-backend=memory"]
    with _running(directory, [str(program), *options], dict(os.environ), r"x") as address:
        key = {"client_email": "", "private_key_id": "", "private_key": "", "disable_oauth": True}
        yield {
            "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**key, "gcs_base_url": address}),
            "GOOGLE_ALLOW_HTTP": "true",
        }
