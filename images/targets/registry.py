"""A registry that the cluster's nodes fetch images from: pushed here, and never removed.

A registry's images are shared: the same content has the same name, so that another stack, or
another user's, may run it. A registry that belongs to a stack is removed with it.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core import http
from core.context import Context
from images.build.engines import Engine, answer
from images.build.runner import BuildFailed, Runner
from images.build.spec import workplace
from images.targets.registry_api import RegistryApi
from images.targets.registry_login import How, Login, config, docker_context, find_login, host
from images.targets.target import Target, TargetError, within

_PUSH_LIMIT = 3600.0
"""Seconds: the image for GPUs is 2.6 GB, which takes 45 minutes at 8 Mbit/s."""


@dataclass(frozen=True)
class Registry(Target):
    """A registry, and how one logs in to it.

    Args:
        server: Its host, with a path where it has one: `example.azurecr.io/team`.
        login: `azure` for the login of the Azure CLI, `docker` for a docker config.json.
        credentials: That file; None for where docker and podman keep theirs.
    """

    server: str
    login: How = "docker"
    credentials: str | None = None

    def name(self, reference: str) -> str:
        return within(self.server, reference)

    @property
    def is_up(self) -> bool:
        return RegistryApi(self.server, None, "").answers

    def digest(self, name: str) -> str | None:
        return RegistryApi(self.server, self._login(), self._remedy).digest(name)

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        with workplace("push", reporter) as (engine, runner, work):
            try:
                self._push(archive, reference, engine, runner, work)
            except BuildFailed as error:
                where = f"{self.name(reference)} can't be pushed; {self._remedy}"
                raise TargetError(f"{where}\n{error}") from None

    def tag(self, name: str, other: str) -> None:
        """Nothing: a registry knows each image by its digest."""

    def remove(self, name: str) -> None:
        """Nothing: others may run it."""

    def _push(
        self, archive: Path, reference: str, engine: Engine, runner: Runner, work: Path
    ) -> None:
        is_here = answer(*engine.digest(reference))
        if not is_here:
            runner.run(f"reading {archive.name}", engine.load(archive))
        name, plain = self.name(reference), http.is_loopback(host(self.server))
        with self._config(work) as file:
            for command in engine.push(reference, name, file, plain=plain):
                runner.run(f"pushing {name}", command, _PUSH_LIMIT)
        if not is_here:
            answer(*engine.remove(reference))

    @contextmanager
    def _config(self, work: Path) -> Iterator[Path]:
        """Yield a config.json with this registry's login alone, for as long as it is needed."""
        content = config(self.server, self._login())
        with tempfile.TemporaryDirectory(dir=work) as directory:
            file = Path(directory) / "config.json"
            if (daemon := docker_context()) is not None:
                # With another configuration, docker would ask another daemon.
                content["currentContext"], contexts = daemon
                (file.parent / "contexts").symlink_to(contexts)
            # Private from the first moment on, not only once its mode is set.
            with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
                json.dump(content, out)
            yield file

    def _login(self) -> Login | None:
        return find_login(self.server, self.login, self.credentials)

    @property
    def _remedy(self) -> str:
        if self.login == "azure":
            return "log in with `az login` as a user with the role AcrPush there"
        where = "" if self.credentials is None else f" --config {Path(self.credentials).parent}"
        return f"log in with `docker{where} login {host(self.server)}` as a user who may push"
