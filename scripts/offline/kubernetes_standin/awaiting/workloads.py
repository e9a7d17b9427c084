"""When Deployments, StatefulSets, DaemonSets and Jobs are ready."""

from collections.abc import Mapping
from typing import Any

from scripts.offline.kubernetes_standin.awaiting import pods
from scripts.offline.kubernetes_standin.awaiting.verdict import (
    READY,
    Verdict,
    condition,
    explain,
    is_observed,
)
from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.manifest import Object

_REPLICA_SET = Kind("apps", "v1", "ReplicaSet")
_REVISION = "deployment.kubernetes.io/revision"
_UNSEEN = Verdict("waiting", "the controller has not seen the change yet")


def deployment(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when every replica is updated and available and no old one is left."""
    if obj["spec"].get("paused"):
        return READY
    if not is_observed(obj):
        return _UNSEEN
    status = obj.get("status") or {}
    wanted = obj["spec"].get("replicas", 1)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated >= wanted and available >= wanted and status.get("replicas", 0) <= updated:
        return READY
    stalled = condition(obj, "Progressing")
    if stalled.get("reason") == "ProgressDeadlineExceeded":
        return Verdict("failed", explain(stalled))
    refused = condition(obj, "ReplicaFailure")
    if refused.get("status") == "True":
        return Verdict("failing", f"its pods are refused: {explain(refused)}")
    return _replicas(_newest_pods(cluster, obj), updated, available, wanted)


def _newest_pods(cluster: Cluster, obj: Mapping[str, Any]) -> list[Object]:
    """Return the pods of the newest revision, so that an old one's trouble is not counted."""
    names = obj["metadata"]
    revision = (names.get("annotations") or {}).get(_REVISION)
    for replica_set in cluster.list(_REPLICA_SET, names["namespace"], labelSelector=_labels(obj)):
        own = replica_set["metadata"]
        owners = [owner.get("uid") for owner in own.get("ownerReferences") or ()]
        if names["uid"] in owners and (own.get("annotations") or {}).get(_REVISION) == revision:
            return pods.selected(
                cluster,
                names["namespace"],
                {"pod-template-hash": own["labels"]["pod-template-hash"]},
            )
    return []


def stateful_set(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when every replica is of the newest revision and ready."""
    if not is_observed(obj):
        return _UNSEEN
    status = obj.get("status") or {}
    wanted, ready = obj["spec"].get("replicas", 1), status.get("readyReplicas", 0)
    strategy = obj["spec"].get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    updated = status.get("updatedReplicas", 0)
    if strategy.get("type") == "OnDelete":
        updated = wanted
    if ready >= wanted and updated >= wanted - partition:
        return READY
    newest = {"controller-revision-hash": status.get("updateRevision", "")}
    return _replicas(
        pods.selected(cluster, obj["metadata"]["namespace"], newest), updated, ready, wanted
    )


def daemon_set(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when the pod of every node that takes one is updated and available."""
    if not is_observed(obj):
        return _UNSEEN
    status = obj.get("status") or {}
    wanted = status.get("desiredNumberScheduled", 0)
    updated = status.get("updatedNumberScheduled", 0)
    if (obj["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
        updated = wanted
    available = status.get("numberAvailable", 0)
    if updated >= wanted and available >= wanted:
        return READY
    found = cluster.list(pods.POD, obj["metadata"]["namespace"], labelSelector=_labels(obj))
    return _replicas(found, updated, available, wanted)


def job(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
    """Ready when it is Complete; a Failed job will not become so."""
    if obj["spec"].get("suspend") or condition(obj, "Complete").get("status") == "True":
        return READY
    failed = condition(obj, "Failed")
    if failed.get("status") == "True":
        return Verdict("failed", f"the job failed: {explain(failed)}")
    status = obj.get("status") or {}
    names = obj["metadata"]
    own = pods.selected(cluster, names["namespace"], {"job-name": names["name"]})
    done = f"{status.get('succeeded', 0)} of {obj['spec'].get('completions', 1)} completions"
    return pods.trouble(own) or Verdict("waiting", _with_progress(done, own))


def _replicas(found: list[Object], updated: int, available: int, wanted: int) -> Verdict:
    count = f"{available} of {wanted} replicas available, {updated} updated"
    return pods.trouble(found) or Verdict("waiting", _with_progress(count, found))


def _with_progress(count: str, found: list[Object]) -> str:
    return "; ".join(filter(None, (count, pods.progress(found))))


def _labels(obj: Mapping[str, Any]) -> str:
    """Return the workload's selector as a query writes it."""
    selector = obj["spec"].get("selector") or {}
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(expression.get("values") or ())
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[expression["operator"]]
        )
    return ",".join(terms)
