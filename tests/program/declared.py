"""A whole program under Pulumi's mocks: what it declares, and what depends on what."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pulumi
import pytest
import yaml
from google.protobuf.json_format import MessageToDict
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import ConstructRequest
from pulumi.runtime import mocks
from pulumi.runtime.settings import _load_monitor_feature_support
from pulumi.runtime.stack import wait_for_rpcs

from core.paths import CHECKOUT
from infra.provider.engine import plain_map, wrap_map
from jobs.model import pytorchjob
from jobs.model.manifest import manifest as submitted
from jobs.model.submission import Submission

_TEMPLATES = CHECKOUT / "stacks"
STACKS = sorted(each.stem for each in _TEMPLATES.glob("*.yaml"))
"""The stacks that have a template."""
PLAIN = "tests/policy/scripts/plain.py"
_MARK, _SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
KUBELOGIN = f"""\
apiVersion: v1
kind: Config
clusters: [{{name: slipway, cluster: {{server: https://slipway.example.org}}}}]
contexts: [{{name: slipway, context: {{cluster: slipway, user: person}}}}]
current-context: slipway
users:
- name: person
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: kubelogin
      args: [get-token, --environment, AzurePublicCloud, --server-id, {"6" * 8}-server,
        --client-id, {"8" * 8}-client, --tenant-id, {"7" * 8}-tenant, --login, devicecode]
"""
"""A kubeconfig as AKS hands it out: the user types a code into a browser."""
_JOB_IMAGE = "localhost/slipway-job-mine"
OUTPUTS: dict[str, Mapping[str, Any]] = {
    "slipway:clusters:Embedded": {
        "kubeconfig": "a kubeconfig",
        "containerdAddress": "/run/containerd.sock",
        "containerdNamespace": "k8s.io",
    },
    "slipway:clusters:Kind": {"kubeconfig": "a kubeconfig", "clusterId": "a UID"},
    "slipway:clusters:Minikube": {"kubeconfig": "a kubeconfig", "clusterId": "a UID"},
    "slipway:clusters:AzureLocalKubeconfig": {"kubeconfig": KUBELOGIN},
    "slipway:images:Image": {
        "reference": "localhost/slipway-trainer:0",
        "imageDigest": "sha256:0",
        "built": "localhost/slipway-trainer:0",
    },
    "slipway:images:JobImage": {
        "reference": f"{_JOB_IMAGE}:0",
        "imageDigest": "sha256:1",
        "pinned": f"{_JOB_IMAGE}@sha256:1",
    },
    "azure-native:containerservice:ManagedCluster": {
        # Asked for as a list, and answered as a map.
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {}},
        "identityProfile": {"kubeletidentity": {"objectId": "azure-nodes-principal"}},
        "oidcIssuerProfile": {"enabled": True, "issuerURL": "https://issuer.example.org/"},
    },
    "slipway:infra:GpuReady": {"cuda": {"state": "unverified", "reason": "nobody looked"}},
    "slipway:jobs:PyTorchJob": {"result": {"state": "Succeeded", "accuracy": 0.98}},
}
"""The outputs of each resource, had it been made."""


def _listed(name: str, kubeconfig: str) -> Mapping[str, Any]:
    encoded = base64.b64encode(kubeconfig.encode()).decode()
    return {"kubeconfigs": [{"name": name, "value": encoded}]}


_ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "azure-native:containerservice:listManagedClusterUserCredentials": _listed("user", KUBELOGIN),
    "azure-native:containerservice:listManagedClusterAdminCredentials": _listed(
        "admin", "an admin's"
    ),
    "azure-native:authorization:getClientToken": {"token": "a token"},
}


@dataclass(frozen=True)
class Declared:
    """A resource as the program asks the engine for it.

    Args:
        inputs: As they travel: a secret is a map with a mark of its own.
        dependencies: URNs of all resources that have to be there before.
        request: The whole of what the engine is sent.
    """

    urn: str
    type: str
    name: str
    inputs: dict[str, Any]
    provider: str
    parent: str
    dependencies: frozenset[str]
    request: Any

    @property
    def ignored(self) -> tuple[str, ...]:
        return tuple(self.request.ignoreChanges)

    @property
    def replaced_on(self) -> set[str]:
        return {*self.request.replaceOnChanges}


@dataclass
class Program:
    """What a program declared, and the stack's outputs."""

    resources: list[Declared] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: str) -> list[Declared]:
        """Return the resources of a type, which its last part is enough for: `PyTorchJob`."""
        return [each for each in self.resources if f":{each.type}".endswith(f":{kind}")]

    def one(self, kind: str, name: str | None = None) -> Declared:
        found = [each for each in self.of(kind) if name in {None, each.name}]
        assert len(found) == 1, f"{len(found)} of {kind} {name}"
        return found[0]

    def names(self, kind: str) -> list[str]:
        return sorted(each.name for each in self.of(kind))

    def starting(self, prefix: str) -> list[Declared]:
        """Return the resources whose type begins like this."""
        return [each for each in self.resources if each.type.startswith(prefix)]

    def needs(self, resource: Declared) -> set[str]:
        """Return the URNs of all that `resource` depends on, by however many steps.

        Its parent and its provider are among them: the engine makes them first and deletes them
        last.
        """
        by_urn = {each.urn: each for each in self.resources}
        found: set[str] = set()
        waiting = [resource]
        while waiting:
            each = waiting.pop()
            provider, _, _ = each.provider.rpartition("::")
            earlier = {*each.dependencies, each.parent, provider} & by_urn.keys() - found
            found |= earlier
            waiting += map(by_urn.__getitem__, earlier)
        return found


Declare = Callable[..., Program]
"""Runs the program on settings that a test names."""


class _Mocks(mocks.Mocks):
    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        if args.token in _ANSWERS:
            return dict(_ANSWERS[args.token]), []
        raise AssertionError(f"the program asks the engine to call {args.token}")

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        # Everything on Azure says what it is called, and others ask for it.
        named = {"name": args.name} if args.typ.startswith("azure-native:") else {}
        if args.typ.endswith(":UserAssignedIdentity"):
            named |= {"clientId": f"{args.name}-client", "principalId": f"{args.name}-principal"}
        outputs = dict(OUTPUTS.get(args.typ, {}))
        if args.inputs.get("operation") == "listAdminKubeconfig":
            outputs["kubeconfig"] = "an admin's"
        return f"{args.name}-id", {**named, **args.inputs, **outputs}


class _Monitor(mocks.MockMonitor):
    """Keeps whole requests: the mocks are told of no dependency and no parent."""

    def __init__(self) -> None:
        super().__init__(_Mocks())
        self.program = Program()

    def Invoke(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        with _loop():
            return super().Invoke(request)  # type: ignore[no-untyped-call]

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        with _loop():
            response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        self.program.resources.append(
            Declared(
                urn=response.urn,
                type=request.type,
                name=request.name,
                inputs=MessageToDict(request.object),
                provider=request.provider,
                parent=request.parent,
                dependencies=frozenset(request.dependencies),
                request=request,
            )
        )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        if "::pulumi:pulumi:Stack::" in request.urn:
            self.program.outputs = MessageToDict(request.outputs)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


@contextmanager
def _loop() -> Iterator[None]:
    """Give a worker thread an event loop, and close it, which nobody else would."""
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield
        asyncio.set_event_loop(None)


def declare(
    settings: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    secrets: Mapping[str, str] = MappingProxyType({}),
    stack: str = "dev",
) -> Program:
    """Run the program on a stack's settings and return what it declares.

    `secrets` are those of the configuration, by their whole key.

    Raises:
        pulumi.RunError: what a person would see instead.
    """
    # Imported late, as the language host does: the mocks have to be there first.
    from infra.program import main  # noqa: PLC0415

    told = {f"slipway:{key}": json.dumps(value) for key, value in settings.items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({**told, **secrets}))
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", json.dumps([*secrets]))
    return _run(lambda _: pulumi.runtime.run_in_stack(main), stack)


def constructed(
    name: str, inputs: Mapping[str, PropertyValue], stack: str, *, dry_run: bool = False
) -> Program:
    """Construct a component, as its provider does, and return it with its outputs.

    Raises:
        pulumi.RunError: what a person would see instead.
    """
    from infra.component import construct  # noqa: PLC0415

    async def construct_it(program: Program) -> None:
        await _load_monitor_feature_support()  # type: ignore[no-untyped-call]  # as its server
        options = pulumi.ResourceOptions()
        request = ConstructRequest("slipway:index:Training", name, {**inputs}, options)
        made = await construct(request)
        await wait_for_rpcs(await_all_outstanding_tasks=False)
        program.outputs = MessageToDict(PropertyValue.marshal_map(made.state))

    return _run(construct_it, stack, dry_run=dry_run)


def _run(
    declaring: Callable[[Program], Awaitable[None]], stack: str, *, dry_run: bool = False
) -> Program:
    monitor = _Monitor()

    async def run() -> None:
        # Not `set_mocks`: it makes a stack of its own, so that the program could not have one.
        settings = mocks.MockSettings(  # type: ignore[no-untyped-call]
            monitor=monitor,
            engine=mocks.MockEngine(None),
            project="slipway",
            stack=stack,
            dry_run=dry_run,
            outputs=set(),  # of this program alone
        )
        pulumi.runtime.configure(settings)
        await declaring(monitor.program)

    asyncio.run(run())
    return monitor.program


def template(stack: str) -> dict[str, Any]:
    """Return the settings in a stack's template."""
    config = yaml.safe_load((_TEMPLATES / f"{stack}.yaml").read_text())["config"]
    return {key.removeprefix("slipway:"): value for key, value in config.items()}


def manifest(run: Declared) -> dict[str, Any]:
    """Return the PyTorchJob that a run submits."""
    return submitted(Submission.from_inputs(plain_map(wrap_map(run.inputs))))


def templates(run: Declared) -> list[Mapping[str, Any]]:
    """Return the templates of a run's pods, that of rank 0 first."""
    return [*pytorchjob.templates(manifest(run)).values()]


def pod(run: Declared) -> Mapping[str, Any]:
    """Return the pod of rank 0."""
    found: Mapping[str, Any] = templates(run)[0]["spec"]
    return found


def container(run: Declared) -> Mapping[str, Any]:
    """Return the only container of rank 0's pod."""
    found: Mapping[str, Any]
    (found,) = pod(run)["containers"]
    return found


def variables(run: Declared) -> dict[str, Any]:
    """Return the values of rank 0's environment variables; None for those of a Secret."""
    return {each["name"]: each.get("value") for each in container(run)["env"]}


def claims(run: Declared) -> list[str]:
    """Return the names of the claims that rank 0's pod has."""
    volumes = pod(run)["volumes"]
    key = "persistentVolumeClaim"
    return [each[key]["claimName"] for each in volumes if key in each]


def secret(value: Any) -> dict[str, Any]:
    """Return `value` as it travels when it is a secret."""
    return {_MARK: _SECRET, "value": value}


def annotations(resource: Declared) -> dict[str, str]:
    found: dict[str, str] = resource.inputs["metadata"]["annotations"]
    return found
