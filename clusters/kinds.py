"""All cluster kinds by name, and the parser for a stack's cluster settings."""

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
"""All kinds that `slipway:cluster` accepts. To add one, add a folder and a line here."""

_ALSO_CALLED: Mapping[str, str] = {"azure": "aks", "azure-local": "azure-stack", "dev": "embedded"}
"""Other names that users may write for a kind, such as its template's stack name."""


@dataclass(frozen=True)
class ClusterSettings:
    """A stack's cluster: its kind, a key in `CLUSTERS`, and the settings for that kind."""

    kind: str
    options: Any


def default_name(kind: str, section: Mapping[str, Any], stack: str) -> str:
    """Return the default name for a cluster: the stack's name.

    A name for a cluster on this machine includes the project's name, unless that is `slipway`.
    """
    # A cluster with the tool's own default name, such as `kind`, might be the user's own.
    own, tools = CLUSTERS[kind].own, CLUSTERS[kind].tools
    if own is None or section.get("adopt"):
        return stack
    if of_project(stack) != stack or stack != kind or kind not in tools:
        return of_project(stack)
    return stack if own.directory(stack).exists() else f"slipway-{stack}"


def read_cluster(
    section: Mapping[str, Any], key: str, stack: str
) -> ClusterSettings | list[Problem]:
    """Return the cluster settings from `section`, the map at `key`, or all problems with them."""
    from core.validation import check  # noqa: PLC0415 - slow, and `CLUSTERS` does not need it

    named = {name: value for name, value in section.items() if name != "kind"}
    written = section.get("kind", "")
    kind = _ALSO_CALLED.get(str(written).lower()) or likeliest(str(written), CLUSTERS.keys())
    problems = list[Problem]()
    if written not in list(CLUSTERS):
        reason = f"{quote(written)} is not a cluster kind" if written else "is missing"
        instead = choices(kind or str(written), CLUSTERS.keys())
        problems.append(Problem(f"{key}.kind", f"{reason}; {instead}"))
    if kind is None:
        # The other keys depend on the kind.
        return problems + [
            Problem(f"{key}.{name}", 'there is no such key; did you mean "kind"?')
            for name in named
            if likeliest(name, ["kind"])
        ]
    # The other settings are validated against the kind that the user probably meant.
    shape, base = CLUSTERS[kind].settings.load(), {"name": default_name(kind, section, stack)}
    options = check(shape, named, key, base=base, presumed=partial(settings_of_template, kind))
    if isinstance(options, list):
        # Settings that a guessed kind requires are not reported as missing.
        problems += [p for p in options if written == kind or not p.text.startswith("is missing")]
    return problems or ClusterSettings(kind, options)


def settings_of_template(kind: str) -> Mapping[str, Any]:
    """Return the cluster settings in a kind's template, or an empty map if there is none."""
    for file in sorted((CHECKOUT / "stacks").glob("*.yaml")):
        cluster = read(file)["config"]["slipway:cluster"]
        if cluster["kind"] == kind:
            return {name: value for name, value in cluster.items() if name != "kind"}
    return {}
