"""A stack of the tests' own, run through the commands that README.md gives a person."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from core import toolchain
from core.process import run
from scripts.scratch import Finished, Scratch
from tests import readme
from tests.engine import checkpoint
from tests.engine.awaiting import COMMAND_SECONDS
from tests.engine.footprint import Baseline, Footprint

UP_SECONDS = 60 * 60
"""A first `up` on a bare machine builds the tools and the trainer's image on the way."""
_ENDING_SECONDS = 2 * 60
"""How long what `make down` has ended may take to vanish."""


@dataclass
class LiveStack:
    """The stack `dev` in a copy of the checkout, with state of its own."""

    scratch: Scratch
    _baseline: Baseline = field(default_factory=Baseline.take, repr=False)

    def run(self, command: str, limit_seconds: float = COMMAND_SECONDS) -> Finished:
        """Run `command` in the copy as a person would, and fail unless it succeeds."""
        finished = self.attempt(command, limit_seconds)
        assert finished.code == 0, str(finished)
        return finished

    def attempt(self, command: str, limit_seconds: float = COMMAND_SECONDS) -> Finished:
        return self.scratch.run(command, limit_seconds)

    def pulumi(self, arguments: str) -> str:
        """Run the Pulumi CLI by hand, as README.md tells, and return its standard output."""
        return self.run(f'eval "$(make -s env)" && pulumi {arguments} --stack dev').output

    def up(self) -> Finished:
        """Run README.md's command for it."""
        return self.run(_UP, UP_SECONDS)

    def down(self) -> Finished:
        """Run README.md's command for it, and fail if anything of the stack is left."""
        footprint = Footprint.take(self.scratch.directory)
        finished = self.run(_DOWN)
        (self.scratch.directory / "kubeconfig").unlink(missing_ok=True)
        clusters = self.cluster.parent.glob("*")
        left = [*footprint.left(self._baseline, _ENDING_SECONDS), *map(str, clusters)]
        assert left == [], "\n".join([*left, str(finished)])
        return finished

    @property
    def backend(self) -> Path:
        return self.scratch.state_home / "slipway/pulumi"

    @property
    def cluster(self) -> Path:
        """Where its cluster is, if there is one."""
        return self.scratch.state_home / "slipway/clusters/dev"

    @property
    def settings(self) -> Path:
        """The stack's file."""
        return self.scratch.checkout / "Pulumi.dev.yaml"

    def configure(self, **settings: Any) -> None:
        """Write what `slipway:` is to have in the stack's file; None takes a key away."""
        document = yaml.safe_load(self.settings.read_text())
        config = document["config"] | {f"slipway:{key}": each for key, each in settings.items()}
        document["config"] = {key: each for key, each in config.items() if each is not None}
        self.settings.write_text(yaml.safe_dump(document))

    @contextmanager
    def configured(self, **settings: Any) -> Iterator[None]:
        """Do so, and put the file back in the end."""
        before = self.settings.read_text()
        try:
            self.configure(**settings)
            yield
        finally:
            self.settings.write_text(before)

    def job(self, name: str) -> dict[str, Any]:
        """Return a job's result, by the stack's outputs."""
        result: dict[str, Any] = checkpoint.outputs(self.backend, "dev")["jobs"][name]
        return result

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig, which is asked for once in a cluster's life."""
        file = self.scratch.directory / "kubeconfig"
        if not file.exists():
            content = self.pulumi("stack output kubeconfig --show-secrets")
            file.touch(0o600)
            file.write_text(content)
        return file

    def kubectl(self, arguments: str) -> str:
        """Run kubectl with the stack's kubeconfig and return its standard output."""
        command = (str(toolchain.path("kubectl")), f"--kubeconfig={self.kubeconfig}")
        return run(*command, *shlex.split(arguments), limit=COMMAND_SECONDS)

    def uids(self) -> dict[str, str]:
        """Return the identity of every training job and its pods: training anew changes it."""
        listing = json.loads(
            self.kubectl("--namespace slipway-jobs get pytorchjobs,pods --output json")
        )
        return {
            f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["uid"]
            for item in listing["items"]
        }


_UP, _DOWN = readme.commands("Two commands")
