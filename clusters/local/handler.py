"""What the resources of kind's and minikube's clusters have in common: their life."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from clusters.local import nodes
from clusters.local.marks import Mark
from clusters.local.tool import Tool
from core.context import Context, show_in_summary
from core.handler import UNKNOWN, Change, Handler, Properties, compare

READY_SECONDS = 300.0
_OF_THE_CLUSTER = ("kubeconfig", "clusterId")
"""Outputs that another cluster of the same name would have others of."""


class LocalHandler(Handler):
    """Creates, adopts, heals and removes a cluster by its tool; its name is its identity.

    Inputs: `name`; `owner`, the stack; `adopt`, whether an existing one of that name may
    be used; and what the cluster is made with, all of which needs a new one when it changes.
    """

    outputs: ClassVar[tuple[str, ...]] = (*_OF_THE_CLUSTER, "adopted")
    secret_outputs: ClassVar[frozenset[str]] = frozenset({"kubeconfig"})
    program: ClassVar[str]
    """The tool's name, for messages and for marks."""

    @abstractmethod
    def tool(self, inputs: Properties) -> Tool:
        """Return the tool bound to the cluster of `inputs`."""

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        adopted = bool(state.get("adopted"))
        changes = [
            Change(change.path, change.kind, replace=_top(change.path) in self._fixed(adopted))
            for change in compare(state, inputs)
        ]
        if any(change.replace for change in changes):
            return changes
        if adopted and any(
            _top(change.path) not in {"name", "owner", "adopt"} for change in changes
        ):
            context.warn(f"{state['name']} was adopted as it is, so what it is made with stays")
        return changes + self._drift(state)

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        tool = self.tool(inputs)
        needs = tool.needs()
        for need in needs:
            show_in_summary(f"`up` will need it: {need}", context.warn)
        known = super().preview(state, inputs, shown, context)
        if state is not None and not needs and not tool.exists():
            return known | dict.fromkeys(_OF_THE_CLUSTER, UNKNOWN)
        return known

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Make the cluster, or take the existing one.

        Raises:
            RuntimeError: something is missing on this machine; such a cluster exists already and
                it is not to be adopted; or the tool failed.
            TimeoutError: the nodes were not Ready in time.
            InterruptedError: the user pressed Ctrl-C.
        """
        tool, mark = self.tool(inputs), Mark(self.program, inputs["name"])
        mark.require(inputs["owner"])
        self._require(tool)
        adopted = False
        if tool.exists():
            if mark.is_there and self._is_complete(tool, inputs, mark):
                context.info(
                    f"goes on with the cluster that an interrupted run has made: {mark.name}"
                )
                return mark.name, self._outputs(tool, adopted=False)
            if mark.is_there:
                context.info(f"removes what an interrupted run has left of {mark.name}")
                tool.delete()
            else:
                self._consider(tool, inputs)
                adopted = True
        if adopted:
            context.status(f"adopts {mark.name}")
            tool.start(context)
        else:
            mark.leave(inputs)
            tool.create(context)
        self._wait(tool, None if adopted else tool.expected, context)
        return mark.name, self._outputs(tool, adopted=adopted)

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        tool = self.tool(state)
        self._require(tool)
        if not tool.exists():
            return None
        return self._outputs(tool, adopted=bool(state.get("adopted")))

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Heal the cluster; make one where it is gone.

        Raises:
            RuntimeError: as in `create`.
            TimeoutError: likewise.
            InterruptedError: likewise.
        """
        tool = self.tool(inputs)
        self._require(tool)
        if not tool.exists():
            context.info(f"{tool.name} is gone, so it is made anew, and all that was in it")
            return self.create(inputs, context)[1]
        adopted = bool(state.get("adopted"))
        expected = None if adopted else tool.expected
        for problem in tool.problems(expected):
            context.info(f"heals {problem}")
        tool.start(context)
        self._wait(tool, expected, context)
        if not adopted:
            Mark(self.program, tool.name).leave(inputs)
        return self._outputs(tool, adopted=adopted)

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Remove the cluster, unless it existed before.

        Raises:
            NotOurs: another stack has made it.
            RuntimeError: something is missing on this machine, or the tool failed.
        """
        if state.get("adopted"):
            context.info(f"{state['name']} was there before this stack, so it stays")
            return
        tool = self.tool(state)
        Mark(self.program, tool.name).require(state.get("owner"))
        self._require(tool)
        context.status(f"removes {tool.name}")
        tool.delete()
        Mark(self.program, tool.name).clear()

    @classmethod
    def remove(cls, directory: Path) -> None:
        """Remove the cluster of that mark, and the mark.

        Raises:
            RuntimeError: the tool failed.
            core.toolchain.ToolMissing: it is missing.
        """
        cls().tool({"name": directory.name}).delete()
        Mark(cls.program, directory.name).clear()

    def _fixed(self, adopted: bool) -> set[str]:
        """Return the inputs that need another cluster when they change."""
        return {"name"} if adopted else self.shape | {"name"}

    @property
    @abstractmethod
    def shape(self) -> set[str]:
        """The inputs that a cluster is made with and that can't be changed in place."""

    def _require(self, tool: Tool) -> None:
        needs = tool.needs()
        if needs:
            listed = "".join(f"\n  {need}" for need in needs)
            raise RuntimeError(f"{self.program}'s cluster {tool.name} needs this:{listed}")

    def _consider(self, tool: Tool, inputs: Properties) -> None:
        """Raise unless the existing cluster, which is not ours, may be used."""
        if not inputs.get("adopt"):
            raise RuntimeError(
                f"{self.program} has a cluster {tool.name} already, and this stack has not made "
                "it. Set slipway:cluster.adopt to true to use it (it is then never deleted), give "
                "slipway:cluster.name another name, or remove that cluster"
            )
        reason = tool.refusal()
        if reason is not None:
            raise RuntimeError(f"{self.program}'s cluster {tool.name} can't be adopted: {reason}")

    def _is_complete(self, tool: Tool, inputs: Properties, mark: Mark) -> bool:
        """Whether what an interrupted run has made is complete."""
        return mark.holds(inputs) and not tool.problems(tool.expected)

    def _drift(self, state: Properties) -> list[Change]:
        tool = self.tool(state)
        found = tool.problems(None if state.get("adopted") else tool.expected)
        changes = [Change(part, drift=True) for part in dict.fromkeys(each.key for each in found)]
        if not found and tool.kubeconfig() != state.get("kubeconfig"):
            changes.append(Change("kubeconfig", drift=True))
        return changes

    def _wait(self, tool: Tool, expected: int | None, context: Context) -> None:
        nodes.wait(lambda: tool.problems(expected), READY_SECONDS, context)

    def _outputs(self, tool: Tool, *, adopted: bool) -> Properties:
        kubeconfig = tool.kubeconfig()
        cluster = nodes.identity(kubeconfig)
        return {"kubeconfig": kubeconfig, "clusterId": cluster, "adopted": adopted}


def _top(path: str) -> str:
    """Return the input in which a path is: `config` of `config.nodes`."""
    return path.partition(".")[0].partition("[")[0]
