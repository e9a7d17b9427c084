"""A whole program under Pulumi's mocks: what it declares, and what depends on what."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from google.protobuf.json_format import MessageToDict
from pulumi.runtime import mocks

PROJECT = "slipway"
_MARK, _SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
_OUTPUTS: Mapping[str, Mapping[str, Any]] = {
    "slipway:clusters:Embedded": {
        "kubeconfig": "a kubeconfig",
        "nodeAddress": "10.77.0.2",
        "nodeName": "slipway-node",
        "containerdAddress": "/run/containerd.sock",
        "containerdNamespace": "k8s.io",
    },
    "slipway:images:Image": {"reference": "localhost/slipway-trainer:0", "imageDigest": "sha256:0"},
    "slipway:images:JobImage": {
        "reference": "localhost/slipway-job-mine:0",
        "imageDigest": "sha256:1",
        "pinned": "localhost/slipway-job-mine@sha256:1",
    },
    "slipway:jobs:PyTorchJob": {"result": {"state": "Succeeded", "accuracy": 0.98}},
}
"""What each resource would return, had it been made."""


@dataclass(frozen=True)
class Declared:
    """A resource as the program asks the engine for it.

    Args:
        inputs: As they travel: a secret is a map with a mark of its own.
        dependencies: URNs of all resources that have to be there before.
    """

    urn: str
    type: str
    name: str
    inputs: dict[str, Any]
    provider: str
    parent: str
    dependencies: frozenset[str]
    ignored: tuple[str, ...]


@dataclass
class Program:
    """What a program declared, and the stack's outputs."""

    resources: list[Declared] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)

    def of(self, type_token: str) -> list[Declared]:
        return [each for each in self.resources if each.type == type_token]

    def one(self, type_token: str, name: str | None = None) -> Declared:
        found = [each for each in self.of(type_token) if name in {None, each.name}]
        assert len(found) == 1, f"{len(found)} of {type_token} {name}"
        return found[0]

    def needs(self, resource: Declared) -> set[str]:
        """Return the URNs of all that `resource` depends on, by however many steps.

        A parent is one of them: the engine makes it first and deletes it last.
        """
        by_urn = {each.urn: each for each in self.resources}
        found: set[str] = set()
        open_ = [*resource.dependencies, resource.parent]
        while open_:
            urn = open_.pop()
            if urn in by_urn and urn not in found:
                found.add(urn)
                open_ += [*by_urn[urn].dependencies, by_urn[urn].parent]
        return found


class _Mocks(mocks.Mocks):
    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"the program asks the engine to call {args.token}")

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return f"{args.name}-id", {**args.inputs, **_OUTPUTS.get(args.typ, {})}


class _Monitor(mocks.MockMonitor):
    """Keeps whole requests: the mocks are told of no dependency and no parent."""

    def __init__(self) -> None:
        super().__init__(_Mocks())
        self.program = Program()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        # A worker thread's loop, which nobody else would close.
        with closing(asyncio.new_event_loop()) as loop:
            asyncio.set_event_loop(loop)
            response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
            asyncio.set_event_loop(None)
        self.program.resources.append(
            Declared(
                urn=response.urn,
                type=request.type,
                name=request.name,
                inputs=MessageToDict(request.object),
                provider=request.provider,
                parent=request.parent,
                dependencies=frozenset(request.dependencies),
                ignored=tuple(request.ignoreChanges),
            )
        )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        if "::pulumi:pulumi:Stack::" in request.urn:
            self.program.outputs = MessageToDict(request.outputs)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


def declare(template: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run the program on the configuration in `template` and return what it declares.

    Raises:
        pulumi.RunError: what a person would see instead.
    """
    # Imported late, as the language host does: the mocks have to be there first.
    from infra.program import main  # noqa: PLC0415

    config = yaml.safe_load(template.read_text())["config"]
    told = {key: json.dumps(value) for key, value in config.items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(told))
    monkeypatch.delenv("PULUMI_CONFIG_SECRET_KEYS", raising=False)
    monitor = _Monitor()

    async def run() -> None:
        # Not `set_mocks`: it makes a stack of its own, so that the program could not have one.
        pulumi.runtime.configure(
            mocks.MockSettings(  # type: ignore[no-untyped-call]
                monitor=monitor,
                engine=mocks.MockEngine(None),
                project=PROJECT,
                stack=template.stem,
                dry_run=False,
            )
        )
        await pulumi.runtime.run_in_stack(main)

    asyncio.run(run())
    return monitor.program


def secret(value: Any) -> dict[str, Any]:
    """Return `value` as it travels when it is a secret."""
    return {_MARK: _SECRET, "value": value}
