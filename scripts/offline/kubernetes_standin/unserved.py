"""What the stand-in leaves to the real plugin, each with what to do instead."""

from importlib.metadata import version

SDK_VERSION = version("pulumi_kubernetes")


class Unserved(Exception):
    """Something that only the real plugin does.

    Args:
        what: What was asked for, by its own name.
        instead: What to do without the real plugin.
    """

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(
            f"the stand-in for pulumi-kubernetes' plugin (no download here) does not serve {what}; "
            f"{instead}, or install the real plugin pulumi-resource-kubernetes {SDK_VERSION} on "
            "PATH, which always wins"
        )


_DECLARE = "declare the objects one by one with their own classes"
_COMPONENTS = {
    "helm.sh": "render the chart with `helm template` and declare its objects",
    "kustomize": "render it with `kubectl kustomize` and declare its objects",
    "yaml": f"{_DECLARE} or use pulumi_kubernetes.yaml.ConfigFile",
}


def refuse_component(type_token: str) -> None:
    """Raise for a type that is no Kubernetes object but a component of the plugin's own.

    Raises:
        Unserved: `type_token` belongs to Helm, Kustomize or yaml/v2.
    """
    module = type_token.split(":")[1]
    instead = _COMPONENTS.get(module.split("/")[0])
    if instead is not None:
        raise Unserved(type_token, instead)


def refuse_patch_or_list(type_token: str, inputs: object) -> None:
    """Raise for the variants of a kind that are no objects themselves.

    Raises:
        Unserved: `type_token` is a Patch or List type.
    """
    kind = type_token.rsplit(":", 1)[1]
    given = inputs if isinstance(inputs, dict) else {}
    if kind.endswith("Patch") and given.get("kind") == kind.removesuffix("Patch"):
        raise Unserved(type_token, f"manage the whole object with {kind.removesuffix('Patch')}")
    if kind.endswith("List") and "items" in given:
        raise Unserved(type_token, _DECLARE)
