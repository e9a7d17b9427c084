"""Servers for s3:// and gs:// URLs, moto's, and for abfs:// ones, Azure's own emulator."""

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from tests.trainer import listening

_MOTO, _AZURITE = "moto[server]==5.2.5", "azurite@3.37.0"
_PROGRAM = Path(__file__).with_name("stores_program.py")
_MAKE_CONTAINER = "import fsspec, sys; fsspec.filesystem('abfs').mkdir(sys.argv[1])"
BUCKET = "results"
ODD_NAMES = ("epoch=1-acc=[0.9].ckpt", "größe 🚀.json", "a b+c&d#e?f*g%20h.txt")
"""Names of files that a store may take for a pattern, or for an address that is quoted."""


@contextmanager
def moto(directory: Path) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Run it with its bucket; yield the variables by which a program reaches it, by scheme."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    packages = listening.installed(_MOTO, *pip, "--root-user-action=ignore", "--target={}")
    env = {"PYTHONPATH": str(packages)}
    command = (sys.executable, str(_PROGRAM))
    with listening.started(command, directory, r"listening on (http://\S+)", env) as address:
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


@contextmanager
def azurite(directory: Path) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Run it with its container; yield the same as `moto`."""
    npm = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier")
    packages = listening.installed(_AZURITE, *npm, "--prefix={}")
    options = ("--blobHost=127.0.0.1", "--blobPort=0", "--inMemoryPersistence", "--silent",
               "--disableTelemetry", "--skipApiVersionCheck")  # fmt: skip
    command = (str(packages / "node_modules/.bin/azurite-blob"), *options)
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    env, said = {"AZURITE_ACCOUNTS": f"slipway:{key}"}, r"successfully listen\S* \S+ (http://\S+)"
    with listening.started(command, directory, said, env) as address:
        account = f"DefaultEndpointsProtocol=http;AccountName=slipway;AccountKey={key}"
        variables = {"AZURE_STORAGE_CONNECTION_STRING": f"{account};BlobEndpoint={address}/slipway"}
        make = (sys.executable, "-c", _MAKE_CONTAINER, BUCKET)
        subprocess.run(make, env={**os.environ, **variables}, check=True)
        yield {"abfs": variables}
