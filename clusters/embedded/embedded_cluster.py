"""The resource `slipway:clusters:Embedded`, an embedded cluster."""

import time
from pathlib import Path

from clusters import owner
from clusters.embedded import OWN, health, images, lifecycle, pki
from clusters.embedded.host import require
from clusters.embedded.layout import Layout
from core.context import Context
from core.handler import Change, Handler, Properties


class EmbeddedHandler(Handler):
    """Creates, repairs and deletes a cluster; the cluster's directory is the resource's ID.

    Inputs: `name`; `directory`; `owner`, the stack; `internet`, true if jobs have internet access.
    """

    outputs = ("kubeconfig", "containerdAddress", "containerdNamespace")
    secret_outputs = frozenset({"kubeconfig"})
    replaced_by = frozenset({"directory"})

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        layout = _layout(state)
        if layout.internet and "internet" not in inputs:  # `compare` ignores removed inputs
            return [Change("internet", "delete")]
        if problems := health.problems(layout):
            time.sleep(2)  # a busy machine may fail a single check
            problems = health.problems(layout)
        parts = ["kubernetes"] if lifecycle.older_versions(layout) else []
        parts += [each.key for each in problems]
        # Renewed certificates mean a new kubeconfig.
        if not problems and pki.kubeconfig(layout, "admin") != state.get("kubeconfig"):
            parts.append("kubeconfig")
        return [Change(part, drift=True) for part in dict.fromkeys(parts)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        layout = _layout(inputs)
        require(layout)
        owner.claim(layout.directory, inputs["owner"])
        lifecycle.bring_up(layout, context.status)
        return inputs["directory"], _outputs(layout)

    def read(self, state: Properties, context: Context) -> Properties | None:
        layout = _layout(state)
        return _outputs(layout) if layout.certificate("admin").exists() else None

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        for problem in health.problems(_layout(inputs)):
            context.info(f"repairing {problem}")
        return super().update(state, inputs, context)

    def delete(self, state: Properties, context: Context) -> None:
        """Delete the cluster, or raise an error if it belongs to another stack."""
        layout = _layout(state)
        name = layout.directory.name
        if layout.directory != OWN.directory(name) or owner.NAME.fullmatch(name) is None:
            raise RuntimeError(f"{layout.directory} was not removed: it is not a cluster directory")
        owner.require(layout.directory, state.get("owner"))
        context.status("stopping processes and removing network and data")
        lifecycle.remove(layout.directory)


def _layout(properties: Properties) -> Layout:
    return Layout(Path(properties["directory"]), internet=properties.get("internet", False))


def _outputs(layout: Layout) -> Properties:
    return {
        "kubeconfig": pki.kubeconfig(layout, "admin"),
        "containerdAddress": str(layout.containerd_socket),
        "containerdNamespace": images.NAMESPACE,
    }
