"""Every kind of cluster, by the name that a stack gives it, and a stack's settings of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from clusters import aks, azure_stack, embedded, kind, kubeconfig, minikube
from clusters.cluster import Kind
from core.manifests import read
from core.paths import CHECKOUT, of_project
from core.problem import Problem, choices, likeliest, quote

CLUSTERS: Mapping[str, Kind] = {
    "aks": aks.KIND,
    "azure-stack": azure_stack.KIND,
    "embedded": embedded.KIND,
    "kind": kind.KIND,
    "minikube": minikube.KIND,
    "kubeconfig": kubeconfig.KIND,
}
"""Every kind that `slipway:cluster` may name. A new one is one folder and one line here."""

_ALSO_CALLED: Mapping[str, str] = {"azure": "aks", "azure-local": "azure-stack", "dev": "embedded"}
"""What a kind may be taken for: mostly the stack that it comes with."""


@dataclass(frozen=True)
class ClusterSettings:
    """Which cluster: a key of `CLUSTERS`, and that kind's own settings."""

    kind: str
    options: Any


def default_name(kind: str, section: Mapping[str, Any], stack: str) -> str:
    """Return the name of a cluster to which its stack's settings give none: the stack's.

    One on this machine is called after the project, too, unless that is `slipway`.
    """
    # What the kind's tool itself calls a cluster by default may be the user's own.
    own, tools = CLUSTERS[kind].own, CLUSTERS[kind].tools
    if own is None or section.get("adopt"):
        return stack
    if of_project(stack) != stack or stack != kind or kind not in tools:
        return of_project(stack)
    return stack if own.directory(stack).exists() else f"slipway-{stack}"


def read_cluster(
    section: Mapping[str, Any], key: str, stack: str
) -> ClusterSettings | list[Problem]:
    """Return the cluster that a stack's map at `key` describes, or everything wrong with it."""
    from core.validation import check  # noqa: PLC0415 - slow, and the table does without

    named = {name: value for name, value in section.items() if name != "kind"}
    given = section.get("kind", "")
    kind = _ALSO_CALLED.get(str(given).lower()) or likeliest(str(given), CLUSTERS.keys())
    problems = list[Problem]()
    if given not in list(CLUSTERS):
        reason = f"{quote(given)} is not a kind of cluster" if given else "is missing"
        instead = choices(kind or str(given), CLUSTERS.keys())
        problems.append(Problem(f"{key}.kind", f"{reason}; {instead}"))
    if kind is None:
        # The other keys depend on the kind.
        return problems + [
            Problem(f"{key}.{name}", 'there is no such key; did you mean "kind"?')
            for name in named
            if likeliest(name, ["kind"])
        ]
    # The other settings are checked as those of the kind that was probably meant.
    shape, base = CLUSTERS[kind].settings.load(), {"name": default_name(kind, section, stack)}
    options = check(shape, named, key, base=base, presumed=partial(settings_of_template, kind))
    if isinstance(options, list):
        # The settings that a guessed kind requires are not reported as missing.
        problems += [p for p in options if given == kind or not p.text.startswith("is missing")]
    return problems or ClusterSettings(kind, options)


def settings_of_template(kind: str) -> Mapping[str, Any]:
    """Return the cluster settings of the template with that kind; empty without one."""
    for file in sorted((CHECKOUT / "stacks").glob("*.yaml")):
        cluster = read(file)["config"]["slipway:cluster"]
        if cluster["kind"] == kind:
            return {name: value for name, value in cluster.items() if name != "kind"}
    return {}
