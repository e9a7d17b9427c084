"""When Services, claims, namespaces and the other basic kinds are ready."""

from collections.abc import Mapping
from typing import Any

from scripts.offline.kubernetes_standin.awaiting.verdict import READY, Verdict, condition, explain
from scripts.offline.kubernetes_standin.cluster import Cluster, NoSuchKind
from scripts.offline.kubernetes_standin.kinds import Kind

_ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice")
_STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def service(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when traffic reaches a pod, and a load balancer's address is known."""
    spec, status = obj["spec"], obj.get("status") or {}
    if spec.get("type") == "LoadBalancer" and not (status.get("loadBalancer") or {}).get("ingress"):
        return Verdict("waiting", "no address of the load balancer yet")
    headless = spec.get("clusterIP") == "None"
    if spec.get("type") == "ExternalName" or headless or not spec.get("selector"):
        return READY
    names = obj["metadata"]
    slices = cluster.list(
        _ENDPOINT_SLICE,
        names["namespace"],
        labelSelector=f"kubernetes.io/service-name={names['name']}",
    )
    for item in slices:
        for endpoint in item.get("endpoints") or ():
            # Absent means ready (discovery.k8s.io/v1, EndpointConditions).
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                return READY
    return Verdict("waiting", "no ready pod behind the service's selector yet")


def claim(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when bound, or when its class binds only once a pod uses it."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Bound":
        return READY
    if phase == "Lost":
        return Verdict("failed", "the claim has lost its volume")
    name = obj["spec"].get("storageClassName")
    for storage_class in cluster.list(_STORAGE_CLASS, None):
        own = storage_class["metadata"]
        is_default = (own.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
        if own["name"] == name or (name is None and is_default):
            if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
                return READY
            return Verdict("waiting", f"not bound yet; its storage class is {own['name']}")
    return Verdict("waiting", f"not bound yet, and there is no storage class {name or '(default)'}")


def volume(_: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when it can be claimed, or is."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Failed":
        return Verdict("failed", explain(obj["status"]))
    return READY if phase in {"Available", "Bound", "Released"} else Verdict("waiting", "pending")


def namespace(_: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when it is Active."""
    phase = (obj.get("status") or {}).get("phase")
    return READY if phase == "Active" else Verdict("waiting", f"the namespace is {phase}")


def quota(_: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when the limits in force are those that were asked for."""
    if (obj.get("status") or {}).get("hard") == obj["spec"].get("hard"):
        return READY
    return Verdict("waiting", "the limits are not in force yet")


def definition(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """A CustomResourceDefinition is ready when objects of its kind can be made."""
    refused = condition(obj, "NamesAccepted")
    if refused.get("status") == "False":
        return Verdict("failed", f"its names are refused: {explain(refused)}")
    if condition(obj, "Established").get("status") != "True":
        return Verdict("waiting", "not established yet")
    cluster.forget_kinds()
    spec = obj["spec"]
    for version in spec["versions"]:
        if version.get("served"):
            try:
                cluster.endpoint(Kind(spec["group"], version["name"], spec["names"]["kind"]))
            except NoSuchKind:
                return Verdict("waiting", f"established, but {version['name']} isn't served yet")
    return READY


def token_secret(_: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """A service account's token is ready when the controller has written it."""
    wanted = obj.get("type") == "kubernetes.io/service-account-token"
    if wanted and "token" not in (obj.get("data") or {}):
        return Verdict("waiting", "the controller has not written the token yet")
    return READY
