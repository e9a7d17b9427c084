"""The component `slipway:index:Training`, with which other Pulumi programs run Slipway.

Its inputs are the settings that the configuration of a stack contains.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pulumi
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import ConstructRequest, ConstructResponse
from pulumi.runtime import rpc, settings

from core import tokens
from core.handler import UNKNOWN
from core.problem import Path, Problem, located
from infra.program import declare
from infra.provider.engine import plain, plain_map
from infra.settings import SettingsError, StackSettings, parse

OUTPUTS = ("jobs", "cluster", "kubeconfig", "skipped", "notRun")


async def construct(request: ConstructRequest) -> ConstructResponse:
    """Declare a component's resources; return the component's outputs once its jobs have finished.

    Raises `SettingsError` if the inputs are invalid, `RunError` if `up` does not know one, and any
    exception that a resource raises.
    """
    is_preview = pulumi.runtime.is_dry_run()
    late = ", ".join(
        located("", place)
        for place, each in _leaves(request.inputs)
        if plain(each) is UNKNOWN and not (is_preview and _is_kept(place, each))
    )
    if late and not is_preview:  # the engine would delete all children that are not declared
        raise pulumi.RunError(
            f"{late}: unknown, as what provides it failed, or --target or --exclude left it out; "
            "nothing in the component was changed. Correct that, then run `pulumi up` without them"
        )
    component = pulumi.ComponentResource(tokens.TRAINING, request.name, None, request.options)
    outputs: dict[str, Any] = dict.fromkeys(OUTPUTS, rpc.UNKNOWN)
    if late:
        pulumi.log.warn(
            f"{late}: not known until `up` has created the resources that provide these inputs, so "
            "this preview neither checks nor shows the component: what it lists below it as "
            "deleted stays. If that is protected, run `pulumi up --skip-preview`",
            component,
        )
    else:
        settings.set_root_resource(component)
        settings.SETTINGS.monitor = _Named(settings.get_monitor(), request.name)
        # For clusters, archives and stores, each component counts as a separate stack.
        settings.SETTINGS.stack = f"{pulumi.get_stack()}-{request.name}"
        declared = declare(_parsed(request.name, request.inputs))
        outputs = {name: declared[name] for name in OUTPUTS}
    component.register_outputs(outputs)
    state = PropertyValue.unmarshal_map(await rpc.serialize_properties(outputs, {}))
    return ConstructResponse(str(await component.urn.future()), state, {})


class _Named:
    """Prefixes names, and former names, with the component's, because URNs omit parents' names."""

    def __init__(self, monitor: Any, name: str) -> None:
        self._monitor = monitor
        self._name = name

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  # the protocol's
        if request.type != tokens.TRAINING:
            for named in (request, *(each.spec for each in request.aliases if each.spec.name)):
                named.name = f"{self._name}-{named.name}"
        return self._monitor.RegisterResource(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._monitor, name)


def _parsed(name: str, inputs: Mapping[str, PropertyValue]) -> StackSettings:
    """Return the settings in a component's inputs, or raise `SettingsError`."""
    values = plain_map(inputs)
    secrets = values.pop("secrets", {})
    if secrets is UNKNOWN:  # a preview needs only the keys, to which jobs refer
        named = (each for place, each in _leaves(inputs) if place[-1] == "config")
        secrets = {str(plain(each)): UNKNOWN for each in named}
    config = {f"slipway:{key}": _text(value) for key, value in {**values, **secrets}.items()}
    hidden = [
        Problem(
            located("", place),
            "is a secret, which would be stored unencrypted with the job; pass it in `secrets`, "
            "and refer to its key in a job's `env`: TOKEN: {config: hfToken}",
        )
        for place, each in _leaves(inputs)
        if each.is_secret and not _is_kept(place, each)
    ]
    listed, source = map("slipway:{}".format, secrets), f"the inputs of {tokens.TRAINING} {name}"
    try:
        return parse(config, pulumi.get_stack(), [*listed], hidden, remedy="pass it in `secrets`")
    except SettingsError as error:
        problems = [replace(each, key=each.key.removeprefix("slipway:")) for each in error.problems]
        raise SettingsError(problems, source) from None


def _is_kept(place: Path, value: PropertyValue) -> bool:
    """Return whether an input is allowed to be a secret, or to be unknown before `up`."""
    if place == ("cluster",):  # a secret kubeconfig makes the cluster a secret, too
        return isinstance(value.value, Mapping) and "kubeconfig" in value.value
    return place[0] == "secrets" or place[:2] == ("cluster", "kubeconfig")


def _leaves(
    values: Mapping[str, PropertyValue] | Sequence[PropertyValue], above: Path = ()
) -> Iterator[tuple[Path, PropertyValue]]:
    """Yield every value with its path; maps and lists come before their items."""
    for key, value in values.items() if isinstance(values, Mapping) else enumerate(values):
        place = (*above, key)
        yield place, value
        if isinstance(value.value, Mapping | Sequence) and not isinstance(value.value, str):
            yield from _leaves(value.value, place)


def _text(value: Any) -> str:
    """Return a value as a stack's configuration stores it; unknown values become a marker."""
    if value is UNKNOWN:
        return rpc.UNKNOWN
    return value if isinstance(value, str) else json.dumps(value, default=lambda _: rpc.UNKNOWN)
