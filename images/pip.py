"""This machine's settings of pip, for a build's own `pip install`: its index and certificates.

Where a network inspects TLS or has an index of its own, no package can be had without them.
"""

import ast
import os
import sys
from collections.abc import Mapping
from configparser import RawConfigParser
from pathlib import Path

from images.engines import answer

_KEPT = ("index-url", "extra-index-url", "trusted-host", "default-timeout", "timeout")
_CERTIFICATES = "/run/slipway-certificates.crt"
_SETTINGS = "/etc/pip.conf"
"""Where pip looks first of all, on any Linux."""


def mounts(work: Path) -> Mapping[str, Path]:
    """Return files for the steps of a build, by where they read them; none without settings.

    Args:
        work: Takes the files that are made for it.
    """
    found = settings(answer(sys.executable, "-m", "pip", "config", "list") or "")
    mine = [
        found.get("cert"),
        os.environ.get("REQUESTS_CA_BUNDLE"),
        os.environ.get("SSL_CERT_FILE"),
    ]
    bundle = next((Path(each) for each in mine if each and Path(each).is_file()), None)
    kept = {name: found[name] for name in _KEPT if name in found}
    if bundle is None and not kept:
        return {}
    parser = RawConfigParser()
    parser["global"] = kept if bundle is None else {**kept, "cert": _CERTIFICATES}
    path = work / "pip.conf"
    path.touch(mode=0o600)  # an index's address may hold a password
    with path.open("w") as file:
        parser.write(file)
    made = {_SETTINGS: path}
    return made if bundle is None else {**made, _CERTIFICATES: bundle.resolve()}


def settings(listed: str) -> dict[str, str]:
    """Return pip's settings from `pip config list`; what the environment says wins."""
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        found[key.rpartition(".")[2]] = str(ast.literal_eval(value))
    return found
