"""A registry of the tests' own: distribution's, built from its Go module, on loopback."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import go_programs
from tests.trainer import listening

_SOURCE = Path(__file__).parent / "registry_program"
_LISTENS = r"listening on (127\.0\.0\.1:\d+)"
USER, PASSWORD = "slipway", "a password with: a colon"
_USERS = "slipway:$2b$04$2jPwHw0SRSxC5..bZXQqM.2ylWDwAch2BS.etuuTSEzFhnkPy8WZW"
"""The same as `htpasswd -B` writes it."""
OTHERS = "c29tZWJvZHk6ZWxzZQ=="
"""A login at another registry."""


@dataclass(frozen=True)
class RunningRegistry:
    """A registry that wants `USER` and `PASSWORD`; `credentials` is a config.json with them."""

    server: str
    credentials: Path


def installed() -> Path:
    """Return the registry's program."""
    return go_programs.built("registry", _SOURCE, "github.com/distribution/distribution/v3", ".")


@contextmanager
def running(directory: Path) -> Iterator[RunningRegistry]:
    """Run the registry with all that it has in `directory`."""
    users = directory / "htpasswd"
    users.write_text(f"{_USERS}\n")
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
        "http": {"addr": "127.0.0.1:0"},
        "auth": {"htpasswd": {"realm": "tests", "path": str(users)}},
    }
    (directory / "registry.json").write_text(json.dumps(settings))
    command = (str(installed()), "serve", str(directory / "registry.json"))
    # It sends traces to a collector unless it is told not to.
    env = {"OTEL_TRACES_EXPORTER": "none"}
    with listening.started(command, directory, _LISTENS, env) as server:
        credentials = directory / "login" / "config.json"
        credentials.parent.mkdir()
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        # The other entry is somebody else's, and must never leave this file.
        auths = {server: {"auth": login}, "elsewhere.example.org": {"auth": OTHERS}}
        credentials.write_text(json.dumps({"auths": auths}))
        yield RunningRegistry(server, credentials)
