"""`slipway:clusters:Embedded`: the embedded cluster as a resource of the local provider."""

import re
from pathlib import Path

from clusters.embedded import health, images, kubeconfig, lifecycle
from clusters.embedded.host import examine
from clusters.embedded.layout import Layout
from infra.plugin.context import Context
from infra.plugin.handler import Change, CheckFailure, Handler, Properties, compare
from infra.plugin.values import UNKNOWN

NAME = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class EmbeddedHandler(Handler):
    """Creates, heals and removes a cluster; its directory is its identity.

    Inputs: `name`, a DNS label; `directory`, an absolute path.
    """

    type = "slipway:clusters:Embedded"
    outputs = ("kubeconfig", "nodeAddress", "nodeName", "containerdAddress", "containerdNamespace")
    secret_outputs = frozenset({"kubeconfig"})

    def check(self, inputs: Properties) -> list[CheckFailure]:
        failures = []
        name, directory = inputs.get("name"), inputs.get("directory")
        if name is not UNKNOWN and not (isinstance(name, str) and NAME.fullmatch(name)):
            failures.append(
                CheckFailure(
                    "name",
                    f"{name!r}: allowed are at most 63 lower-case letters, digits and hyphens, "
                    "beginning and ending with a letter or digit",
                )
            )
        if directory is not UNKNOWN and not Path(str(directory)).is_absolute():
            failures.append(CheckFailure("directory", f"{directory!r}: must be an absolute path"))
        return failures

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        changes = [
            Change(change.path, change.kind, replace=change.path == "directory")
            for change in compare(state, inputs)
        ]
        if any(change.replace for change in changes):
            return changes
        return changes + _drift(_layout(state), state)

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        layout = _layout(inputs)
        lifecycle.bring_up(layout, context.status)
        return str(layout.directory), _outputs(layout)

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        layout = Layout(Path(resource_id))
        if not layout.certificate("admin").exists():
            return None
        return _outputs(layout)

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        layout = _layout(inputs)
        for problem in health.problems(layout, examine(layout)):
            context.info(f"heals {problem}")
        lifecycle.bring_up(layout, context.status)
        return _outputs(layout)

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        context.status("ends processes, removes network and data")
        lifecycle.remove(_layout(state))


def _layout(properties: Properties) -> Layout:
    return Layout(Path(properties["directory"]))


def _drift(layout: Layout, state: Properties) -> list[Change]:
    problems = health.lasting_problems(layout, examine(layout))
    parts = dict.fromkeys(problem.part for problem in problems)
    changes = [Change(part, drift=True) for part in parts]
    # Handed out anew with renewed certificates.
    if not problems and kubeconfig.embedded(layout, "admin") != state.get("kubeconfig"):
        changes.append(Change("kubeconfig", drift=True))
    return changes


def _outputs(layout: Layout) -> Properties:
    return {
        "kubeconfig": kubeconfig.embedded(layout, "admin"),
        "nodeAddress": str(layout.node_address),
        "nodeName": layout.node,
        "containerdAddress": str(layout.containerd_socket),
        "containerdNamespace": images.NAMESPACE,
    }
