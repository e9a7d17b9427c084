"""A stub of the azure-native plugin, for previews on machines that can't download it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version as version_of_package
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime.proto import engine_pb2_grpc

from core.handler import UNKNOWN, differences
from core.paths import use_extra
from infra.provider.engine import EngineContext, plain_map, wrap_map
from infra.provider.provider import response
from infra.provider.server import serve

_REPLACED = re.compile(
    "|".join(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8")))
)
"""Matches inputs that make azure-native replace a resource when they change."""


class NeedsPlugin(Exception):
    """The request needs the real azure-native plugin."""

    def __init__(self, action: str) -> None:
        super().__init__(
            f"{action} requires the azure-native plugin, but Slipway's stub is in use, which "
            f"supports only previews. `make setup` downloads plugin {sdk_version()} if its release "
            "site is reachable, or uses a copy that you installed (docs/install.md). Then log in "
            "with `az login` and run the command again"
        )


class PreviewStub(protocol.Provider):
    """Serves checks, diffs and previews for every resource type; refuses all other requests."""

    notice = (
        "Azure is not contacted: the azure-native plugin is not installed, so Slipway's stub shows "
        "what the stack declares. It does not check quotas, permissions, or whether names are "
        "taken. `up` requires the plugin: docs/install.md"
    )
    """A warning shown once per command."""

    def __init__(self, engine: engine_pb2_grpc.EngineStub) -> None:
        self._engine = engine
        self._shown: set[tuple[str, str]] = set()
        self._location: PropertyValue | None = None
        self._has_refused = False

    async def configure(self, request: protocol.ConfigureRequest) -> protocol.ConfigureResponse:
        self._location = request.args.get("location")
        return await super().configure(request)

    async def check(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        if self._has_refused:
            # Resources that depend on a refused one would lack its outputs and crash the program.
            self._refuse("creating", request)
        EngineContext(self._engine, "", printed=self._shown).warn(self.notice)
        inputs = request.new_inputs
        if token(request) == "azure-native:resources:Resource" and self._location is not None:
            # The plugin adds it too; without it, the preview would show a replacement.
            inputs = {"location": self._location, **inputs}
        return protocol.CheckResponse(inputs=inputs)

    async def diff(self, request: protocol.DiffRequest) -> protocol.DiffResponse:
        """Compare the new inputs with the previous ones, which `Servicer` passes as the state."""
        states = (request.old_state, request.new_inputs)
        old, new = (_without_nulls(plain_map(each)) for each in states)
        return response(
            [
                replace(each, replace=_REPLACED.fullmatch(each.path) is not None)
                for each in differences(old, new)
                if each.path not in request.ignore_changes
            ]
        )

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        if not request.preview:
            self._refuse("creating", request)
        return protocol.CreateResponse("", wrap_map(_outputs_in_preview(request.properties)))

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        if not request.preview:
            self._refuse("updating", request)
        outputs = {**plain_map(request.olds), **_outputs_in_preview(request.news)}
        return protocol.UpdateResponse(wrap_map(outputs))

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        self._refuse("reading", request)

    async def delete(self, request: protocol.DeleteRequest) -> None:
        self._refuse("deleting", request)

    async def invoke(self, request: protocol.InvokeRequest) -> protocol.InvokeResponse:
        raise NeedsPlugin(f"the function {request.tok}")

    def _refuse(self, action: str, request: Any) -> NoReturn:
        self._has_refused = True
        raise NeedsPlugin(f"{action} {token(request)} {request.name}")


class Servicer(ProviderServicer):
    """Passes a resource's previous inputs to the provider; the SDK's own servicer omits them."""

    async def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        request.olds.CopyFrom(request.old_inputs)
        return await super().Diff(request, context)

    async def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.preview:
            # The output for a changed input is not known yet.
            old, new = dict(request.old_inputs.fields), dict(request.news.fields)
            for key in old.keys() | new.keys():
                if old.get(key) != new.get(key):
                    request.olds.fields.pop(key, None)
        return await super().Update(request, context)


def run(provider: type[PreviewStub], suffix: str) -> None:
    """Serve a provider until the engine exits; `suffix` is appended to the plugin's version."""
    use_extra("azure")
    serve(provider, f"{sdk_version()}+{suffix}", Servicer)


def sdk_version() -> str:
    """Return the version of the installed SDK, which is also the plugin's version."""
    return version_of_package("pulumi-azure-native")


def token(request: Any) -> str:
    """Return a resource's type without its parents' types: `child` for `parent$child`."""
    return str(request.type).rpartition("$")[2]


def _without_nulls(value: Any) -> Any:
    """Return a value without null fields, which plugins treat as missing."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _outputs_in_preview(inputs: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """Return the outputs that are known during a preview: inputs, but not maps or lists.

    Azure adds values to maps and lists.
    """
    items = plain_map(inputs).items()
    return {
        key: each for key, each in items if each is UNKNOWN or isinstance(each, str | int | float)
    }


if __name__ == "__main__":
    run(PreviewStub, "stub")
