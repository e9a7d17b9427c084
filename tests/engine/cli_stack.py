"""A stack of a project in a directory of its own, run by the real CLI."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from core import toolchain
from scripts.environment import pulumi_home
from tests.engine import checkpoint
from tests.engine.awaiting import COMMAND_SECONDS

_PROJECT = "tests"
_STACK = "test"
CALLED = f"{_PROJECT}/{_STACK}"
"""What it is called in marks."""
MAIN = "import pulumi\n\nfrom infra.program import main\n\npulumi.run(main)\n"
"""The program of this repository."""
_EMPTY: dict[Path, bytes] = {}
"""The files of a stack without resources."""


@dataclass(frozen=True)
class Outcome:
    """What one command of the CLI said, as text and as the engine's events."""

    code: int
    text: str
    events: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        return f"exit status {self.code}\n{self.text}"

    @property
    def changes(self) -> dict[str, int]:
        """How many resources were created, updated and so on; unchanged ones are left out."""
        summaries = (each["summaryEvent"] for each in self.events if "summaryEvent" in each)
        counted = dict(next(summaries, {"resourceChanges": {}})["resourceChanges"])
        counted.pop("same", None)
        return counted

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What the engine did with each resource, or would do."""
        events = (event.get("resourcePreEvent") for event in self.events)
        return [event["metadata"] for event in events if event is not None]

    def urns(self, *operations: str) -> list[str]:
        """Return the resources that one of these steps was taken for, such as `create`."""
        return [step["urn"] for step in self.steps if step["op"] in operations]

    def diff(self, name: str) -> dict[str, str]:
        """Return the property paths that the steps for `name` say changed, and how."""
        diffs = [step.get("detailedDiff") or {} for step in self.steps
                 if step["urn"].endswith(f"::{name}")]  # fmt: skip
        return {path: each["diffKind"] for diff in diffs for path, each in diff.items()}


class Stack:
    """A project in a directory of its own, with state of its own."""

    def __init__(
        self, directory: Path, root: Path, kubeconfig: str, main: str, azure: Path | None = None
    ) -> None:
        """Make it with the program `main`; what serves azure-native is in `azure`, if anything."""
        self.directory = directory
        self.kubeconfig = kubeconfig
        self._root = root
        self._environment = self._make_environment()
        paths = {
            "slipway": root / "infra/provider",
            "kubernetes": root / "scripts/plugins",
            "azure-native": azure or root / "scripts/plugins",
        }
        providers = [{"name": name, "path": str(path)} for name, path in paths.items()]
        project = {"name": _PROJECT, "runtime": "python", "plugins": {"providers": providers}}
        (directory / "Pulumi.yaml").write_text(json.dumps(project))
        (directory / "__main__.py").write_text(main)
        self._initialize()

    def _initialize(self) -> None:
        """Make the stack in the state: by the CLI once for all, as a copy of that after."""
        if not _EMPTY:
            outcome = self.pulumi("stack", "init", _STACK)
            assert outcome.code == 0, str(outcome)
            for file in (self._config, *(self.directory / "state").rglob("*")):
                if file.is_file():
                    _EMPTY[file.relative_to(self.directory)] = file.read_bytes()
        for name, content in _EMPTY.items():
            file = self.directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    @property
    def _config(self) -> Path:
        return self.directory / f"Pulumi.{_STACK}.yaml"

    def _make_environment(self) -> dict[str, str]:
        state = self.directory / "state"
        state.mkdir()
        tools = dict.fromkeys(
            str(toolchain.path(name).parent) for name in ("pulumi", "pulumi-language-python")
        )
        path = [str(self._root / ".venv/bin"), *tools, os.environ["PATH"]]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        return kept | {
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": str(self._root),
            "PULUMI_BACKEND_URL": f"file://{state}",
            # Has the CLI write the engine's events to a file (`--event-log`).
            "PULUMI_DEBUG_COMMANDS": "true",
            "PULUMI_CONFIG_PASSPHRASE": "made up for this test",
            "PULUMI_HOME": str(pulumi_home()),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            # The CLI has selected it only where it has made it.
            "PULUMI_STACK": _STACK,
            # Its logs and paths are the checkout's, as of the tests that read them.
            "SLIPWAY_PROJECT": str(self._root),
        }

    def environment(self, **arguments: Any) -> dict[str, str]:
        return self._environment | {
            "TEST_KUBECONFIG": self.kubeconfig,
            "TEST_JOBS": json.dumps(arguments),
        }

    def pulumi(self, *command: str, environment: Mapping[str, str] | None = None) -> Outcome:
        finished = subprocess.run(
            [str(toolchain.path("pulumi")), *command, "--non-interactive", "--color", "never"],
            cwd=self.directory, env=self.environment() if environment is None else environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
        return Outcome(finished.returncode, finished.stdout, ())

    def configure(self, **settings: Any) -> None:
        """Write what `slipway:` has in the stack's file."""
        config = {f"slipway:{key}": value for key, value in settings.items()}
        document = {**yaml.safe_load(self._config.read_text()), "config": config}
        self._config.write_text(yaml.safe_dump(document))

    def attempt(
        self,
        operation: str,
        *options: str,
        variables: Mapping[str, str] = MappingProxyType({}),
        **arguments: Any,
    ) -> Outcome:
        """Run `operation` on the stack and collect the engine's events, whatever comes out."""
        log = self.directory / "events.json"
        log.unlink(missing_ok=True)
        outcome = self.pulumi(
            *(operation, "--stack", _STACK, "--event-log", str(log)),
            *(() if operation == "preview" else ("--yes", "--skip-preview")),
            *options,
            environment={**self.environment(**arguments), **variables},
        )
        lines = log.read_text().splitlines() if log.exists() else []
        return Outcome(outcome.code, outcome.text, tuple(map(json.loads, lines)))

    def run(self, operation: str, *options: str, **arguments: Any) -> Outcome:
        outcome = self.attempt(operation, *options, **arguments)
        assert outcome.code == 0, str(outcome)
        return outcome

    def refused(self, operation: str, **arguments: Any) -> str:
        outcome = self.attempt(operation, **arguments)
        assert outcome.code != 0, str(outcome)
        return outcome.text

    def up(self, **arguments: Any) -> Outcome:
        return self.run("up", **arguments)

    def preview(self, **arguments: Any) -> Outcome:
        return self.run("preview", **arguments)

    def destroy(self) -> Outcome:
        return self.run("destroy")

    def output(self, name: str) -> Any:
        """Return one of the stack's outputs, which is not secret; None when it has none."""
        return checkpoint.outputs(self.backend, _STACK).get(name)

    @contextmanager
    def going_up(self, **arguments: Any) -> Iterator["subprocess.Popen[bytes]"]:
        """Start an `up` and go on beside it; what it says is in `log`."""
        options = ("--yes", "--skip-preview", "--non-interactive", "--color", "never")
        with (
            (self.directory / "up.log").open("wb") as log,
            subprocess.Popen(
                [str(toolchain.path("pulumi")), "up", "--stack", _STACK, *options],
                cwd=self.directory, env=self.environment(**arguments),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            ) as process,
        ):  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    @property
    def log(self) -> str:
        return (self.directory / "up.log").read_text()

    @property
    def backend(self) -> Path:
        return self.directory / "state"

    @property
    def resources(self) -> list[dict[str, Any]]:
        return checkpoint.resources(self.backend, _STACK)

    def unlock(self) -> None:
        """Remove the lock that a killed CLI has left, as `pulumi cancel` does."""
        for lock in self.backend.glob(".pulumi/locks/**/*.json"):
            lock.unlink()


class WholeStack(Stack):
    """A stack of this repository's program; whatever fails, it has its outputs."""

    def __init__(
        self, directory: Path, root: Path, main: str = MAIN, azure: Path | None = None
    ) -> None:
        super().__init__(directory, root, "", main, azure)

    def environment(self, **arguments: Any) -> dict[str, str]:
        # Runs of other stacks may have the same names.
        home = {"XDG_STATE_HOME": str(self.directory / "home")}
        return super().environment(**arguments) | home | {"PULUMI_CONTINUE_ON_ERROR": "true"}

    def result(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.output("jobs")[job]
        return found
