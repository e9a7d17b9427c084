"""How smoke checks reach a cluster: kubectl, run by testinfra on this machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testinfra.host import Host


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig that has all rights on the cluster."""

    host: Host
    program: Path
    kubeconfig: Path

    def items(self, resource: str, *arguments: str) -> list[dict[str, Any]]:
        return list(self._get(resource, *arguments)["items"])

    def item(self, resource: str, name: str, *arguments: str) -> dict[str, Any]:
        return dict(self._get(resource, name, *arguments))

    def find(self, reference: dict[str, Any]) -> dict[str, Any] | None:
        """Return the very object that an event is about; None if only its name is there."""
        name, namespace = f"{reference['kind']}/{reference['name']}", reference["namespace"]
        found = self._get(name, "--ignore-not-found", "--namespace", namespace)
        is_it = found is not None and found["metadata"]["uid"] == reference.get("uid")
        return found if is_it else None

    def allows(self, account: str, right: str) -> bool:
        """Return the answer of `kubectl auth can-i`.

        Args:
            account: `namespace:name` of a ServiceAccount.
            right: `verb resource namespace`; `-` stands for the whole cluster.
        """
        verb, resource, namespace = right.split(" ")
        resource, _, subresource = resource.partition("/")
        where = ["--all-namespaces"] if namespace == "-" else ["--namespace", namespace]
        # kubectl reads `secrets/NAME` as one object and has an option for a subresource.
        if resource == "secrets" and subresource:
            resource, subresource = f"{resource}/{subresource}", ""
        extra = ["--subresource", subresource] if subresource else []
        who = f"system:serviceaccount:{account}"
        result = self._run("auth", "can-i", verb, resource, "--as", who, *where, *extra)
        answer = result.stdout.strip().partition(" ")[0]
        if answer not in {"yes", "no"}:
            raise RuntimeError(str(result))
        return bool(answer == "yes")

    def _get(self, *arguments: str) -> Any:
        result = self._run("get", *arguments, "--output", "json")
        if result.failed:
            raise RuntimeError(str(result))
        return json.loads(result.stdout) if result.stdout else None

    def _run(self, *arguments: str) -> Any:
        words = (str(self.program), "--kubeconfig", str(self.kubeconfig), *arguments)
        return self.host.run(" ".join(["%s"] * len(words)), *words)
