"""How smoke checks reach a cluster: kubectl, run by testinfra on this machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testinfra.backend.base import CommandResult
from testinfra.host import Host


@dataclass(frozen=True)
class Kubectl:
    """kubectl with one kubeconfig.

    >>> kubectl.items("nodes")                                             # doctest: +SKIP
    [{'kind': 'Node', ...}]
    >>> kubectl.allows("system:serviceaccount:team:job", "list", "pods")   # doctest: +SKIP
    False

    Args:
        host: The machine that kubectl runs on.
        program: The kubectl to run.
        kubeconfig: A file with all rights on the cluster.
    """

    host: Host
    program: Path
    kubeconfig: Path

    def items(self, resource: str, *arguments: str) -> list[dict[str, Any]]:
        """Return the objects of `resource`, whole.

        Raises:
            RuntimeError: kubectl failed; the text is the whole command's result.
        """
        result = self._run("get", resource, *arguments, "--output", "json")
        if result.failed:
            raise RuntimeError(str(result))
        found: list[dict[str, Any]] = json.loads(result.stdout)["items"]
        return found

    def item(self, resource: str, name: str, *arguments: str) -> dict[str, Any]:
        """Return one object, whole.

        Raises:
            RuntimeError: there is no such object, or kubectl failed otherwise.
        """
        result = self._run("get", resource, name, *arguments, "--output", "json")
        if result.failed:
            raise RuntimeError(str(result))
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def find(self, reference: dict[str, Any]) -> dict[str, Any] | None:
        """Return the very object, whole; None when it is gone, though one of its name is there.

        Args:
            reference: An ObjectReference, as events hold it.

        Raises:
            RuntimeError: kubectl failed; the text is the whole command's result.
        """
        named = (f"{reference['kind']}/{reference['name']}", "--ignore-not-found")
        place = ("--namespace", reference["namespace"])
        result = self._run("get", *named, *place, "--output", "json")
        if result.failed:
            raise RuntimeError(str(result))
        found: dict[str, Any] | None = json.loads(result.stdout) if result.stdout else None
        if found is None or found["metadata"]["uid"] != reference.get("uid"):
            return None
        return found

    def allows(self, account: str, verb: str, resource: str, *arguments: str) -> bool:
        """Return what `kubectl auth can-i` answers for `account`.

        Raises:
            RuntimeError: kubectl gave no answer.
        """
        result = self._run("auth", "can-i", verb, resource, "--as", account, *arguments)
        answer: str = result.stdout.strip().partition(" ")[0]
        if answer not in {"yes", "no"}:
            raise RuntimeError(str(result))
        return answer == "yes"

    def _run(self, *arguments: str) -> CommandResult:
        words = (str(self.program), "--kubeconfig", str(self.kubeconfig), *arguments)
        return self.host.run(" ".join(["%s"] * len(words)), *words)
