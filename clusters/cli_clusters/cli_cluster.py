"""Handlers for kind and minikube clusters, and the target for images on their nodes."""

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from kubernetes import config

from clusters import owner
from clusters.cli_clusters.tool import Tool, identity, others_objects
from clusters.cluster import Remains
from core import kube
from core.context import Context, show_in_summary
from core.handler import UNKNOWN, Change, Handler, Properties, differences
from core.toolchain import ToolMissing
from core.wait import NotYet, until
from images.targets.target import Target, listed

READY_SECONDS = 300.0
_OF_THE_CLUSTER = ("kubeconfig", "clusterId")
"""Outputs that differ between two clusters with the same name."""
_IN_PLACE = frozenset({"name", "owner", "adopt", "force"})
"""Inputs that do not affect how a cluster is created."""


class ToolHandler(Handler):
    """Creates, adopts, repairs and deletes a cluster with its tool; the cluster's name is its ID.

    Inputs: `name`; `owner`, the stack; `adopt`, true to use an existing cluster; and others that
    replace the cluster if they change.
    """

    outputs: ClassVar[tuple[str, ...]] = (*_OF_THE_CLUSTER, "adopted")
    secret_outputs: ClassVar[frozenset[str]] = frozenset({"kubeconfig"})

    tool: ClassVar[type[Tool]]

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        adopted = bool(state.get("adopted"))
        altered = differences({key: state[key] for key in state.keys() - self.outputs}, inputs)
        made_with = [each for each in altered if re.split(r"[.[]", each.path)[0] not in _IN_PLACE]
        fixed = [] if adopted else made_with
        changes = [replace(each, replace=each.path == "name" or each in fixed) for each in altered]
        if any(each.replace for each in changes):
            return changes
        if adopted and made_with:
            context.warn(f"changed settings do not apply to {state['name']}, as it was adopted")
        tool = self.tool(state)
        problems = tool.problems(adopted=adopted)
        parts = dict.fromkeys(each.key for each in problems)
        if not problems and tool.kubeconfig() != state.get("kubeconfig"):
            parts["kubeconfig"] = None
        return changes + [Change(part, drift=True) for part in parts]

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        tool = self.tool(inputs)
        needs = tool.needs()
        for need in needs:
            show_in_summary(f"`up` will fail without this: {need}", context.warn)
        outputs = super().preview(state, inputs, shown, context)
        if state is not None and not needs and not tool.exists():
            return outputs | dict.fromkeys(_OF_THE_CLUSTER, UNKNOWN)
        return outputs

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Create the cluster, or adopt the existing one if the settings allow it."""
        tool = self.tool(inputs)
        owner.require(tool.directory, inputs["owner"])
        _require(tool)
        if tool.exists():
            if not tool.is_ours():
                return tool.name, _adopt(tool, context)
            context.info(f"removing {tool.name}, which an interrupted run left behind")
            tool.delete()
        owner.claim(tool.directory, inputs["owner"])
        tool.create(owner.new_token(tool.directory), context)
        return tool.name, _ready(tool, context, adopted=False)

    def read(self, state: Properties, context: Context) -> Properties | None:
        tool = self.tool(state)
        _require(tool)
        return _outputs(tool, adopted=bool(state.get("adopted"))) if tool.exists() else None

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        """Repair the cluster, or create it again if it no longer exists."""
        tool = self.tool(inputs)
        _require(tool)
        if not tool.exists():
            context.info(f"{tool.name} no longer exists: recreating it with all its contents")
            return self.create(inputs, context)[1]
        adopted = bool(state.get("adopted"))
        if not adopted and tool.is_ours() is False:
            return _adopt(tool, context)
        for problem in tool.problems(adopted=adopted):
            context.info(f"repairing {problem}")
        tool.start(context)
        return _ready(tool, context, adopted=adopted)

    def delete(self, state: Properties, context: Context) -> None:
        """Delete the cluster if this stack created it."""
        if state.get("adopted"):
            context.info(f"{state['name']} existed before this stack, so it is kept")
            return
        tool = self.tool(state)
        owner.require(tool.directory, state.get("owner"))
        _require(tool)
        if tool.exists() and not _is_made_by(state, tool):
            context.info(f"{tool.name} is not the cluster that this stack created, so it is kept")
        else:
            context.status(f"removing {tool.name}")
            tool.delete()
        shutil.rmtree(tool.directory, ignore_errors=True)

    @classmethod
    def remove(cls, directory: Path) -> None:
        """Delete the cluster recorded in `directory`; raise if it may be a different cluster."""
        tool = cls.tool({"name": directory.name})
        if tool.exists() and not tool.is_ours():
            raise RuntimeError(
                f"{tool.program}'s cluster {tool.name} does not have the creation token that "
                f"{directory} records, so it is kept. To remove it anyway, run: {tool.removal} "
                f"{tool.name}. After that, or to keep it, run: rm -r {directory}"
            )
        tool.delete()
        shutil.rmtree(directory, ignore_errors=True)

    @classmethod
    def remains(cls, settings: Any, _stack: str) -> Remains:
        """Return the cluster, with the command to remove it, if Slipway's files for it exist."""
        tool, left = cls.tool(vars(settings)), []
        if tool.directory.exists():
            # Without the tool, or its engine, it is unknown whether the cluster exists.
            is_gone = not tool.needs() and not (tool.exists() and tool.is_ours() is not False)
            forget = f"rm -r {tool.directory}"
            command = forget if is_gone else f"{tool.removal} {tool.name} && {forget}"
            left.append(f"{tool.program}'s cluster {tool.name}: {command}")
        return {f"{tool.program} clusters": left}


@dataclass(frozen=True)
class NodeImages(Target):
    """The images on all nodes of a cluster; the cluster's tool loads them."""

    tool: Tool

    @property
    def is_up(self) -> bool:
        try:
            return not self.tool.needs() and self.tool.exists() and not self.tool.stopped()
        except (RuntimeError, ToolMissing):
            return False

    def digest(self, name: str) -> str | None:
        """Return an image's digest if all nodes have the same one, or else None."""
        digests = {self._digest(node, name) for node in self.tool.nodes()}
        return digests.pop() if len(digests) == 1 else None

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        self.tool.load(archive, reporter)

    def tag(self, name: str, other: str) -> None:
        for node in self.tool.nodes():
            self._images(node, "tag", "--force", name, other)

    def remove(self, name: str) -> None:
        for node in self.tool.nodes():
            if self._digest(node, name) is not None:
                self._images(node, "remove", "--sync", name, limit=300.0)

    def _digest(self, node: str, name: str) -> str | None:
        return listed(self._images(node, "list", f"name=={name}"), name)

    def _images(self, node: str, *arguments: str, limit: float = 60.0) -> str:
        command = ("ctr", "--namespace=k8s.io", "images", *arguments)
        return self.tool.execute(node, *command, limit=limit)


def _require(tool: Tool) -> None:
    if needs := tool.needs():
        listed = "".join(f"\n  {need}" for need in needs)
        raise RuntimeError(f"{tool.program}'s cluster {tool.name} requires:{listed}")


def _adopt(tool: Tool, context: Context) -> Properties:
    """Start a cluster that is not Slipway's, or raise `RuntimeError` if it can't be adopted."""
    if not tool.inputs.get("adopt"):
        raise RuntimeError(
            f"{tool.program} already has a cluster {tool.name}, which this stack did not create. "
            "Set slipway:cluster.adopt to true to use it (it is then never deleted), set "
            f"slipway:cluster.name to another name, or delete it with: {tool.removal} {tool.name}"
        )
    if (reason := tool.refusal()) is not None:
        raise RuntimeError(f"{tool.program}'s cluster {tool.name} can't be adopted: {reason}")
    # It may be left over from a creation that was interrupted before the cluster existed.
    shutil.rmtree(tool.directory, ignore_errors=True)
    context.status(f"adopting {tool.name}")
    tool.start(context)
    outputs = _ready(tool, context, adopted=True)
    if theirs := others_objects(outputs["kubeconfig"], tool.inputs["owner"]):
        raise RuntimeError(
            f"{tool.program}'s cluster {tool.name} can't be adopted: `make down` would delete "
            f"{', '.join(theirs)}, which this stack did not create. Delete it first, or set "
            "slipway:cluster.kind to kubeconfig, which keeps it (docs/existing-cluster.md)"
        )
    return outputs


def _is_made_by(state: Properties, tool: Tool) -> bool:
    """Return whether the existing cluster is the one in the state, or raise `RuntimeError`."""
    # A cluster that predates tokens has only its identity.
    if (ours := tool.is_ours()) is not None:
        return ours
    try:
        return identity(tool.kubeconfig()) == state.get("clusterId")
    except (*kube.UNREACHABLE, config.ConfigException, ValueError) as error:
        raise RuntimeError(
            f"can't tell whether {tool.program}'s cluster {tool.name} was created by this stack, "
            f"because it is not responding ({kube.reason(error)}). Start it and try again; or, if "
            f"this stack did create it, remove it with: {tool.removal} {tool.name}"
        ) from error


def _ready(tool: Tool, context: Context, *, adopted: bool) -> Properties:
    """Wait until the cluster has no problems, and return its outputs."""

    def look() -> None:
        if problems := tool.problems(adopted=adopted):
            raise NotYet("; ".join(map(str, problems)))

    until(look, READY_SECONDS, "the cluster's nodes", context, every=1.0)
    return _outputs(tool, adopted=adopted)


def _outputs(tool: Tool, *, adopted: bool) -> Properties:
    kubeconfig = tool.kubeconfig()
    return {"kubeconfig": kubeconfig, "clusterId": identity(kubeconfig), "adopted": adopted}
