"""Fields that cannot be changed in place, so that a change replaces the object.

The real plugin's list (provider/pkg/provider/diff.go and its documentation), so that the same
program plans the same replacements on both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.offline.kubernetes_standin.kinds import Kind

Path = tuple[str, ...]

_VOLUME_SOURCES = (
    "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker "
    "gcePersistentDisk glusterfs hostPath iscsi local nfs photonPersistentDisk portworxVolume "
    "quobyte rbd scaleIO storageos vsphereVolume"
)
_STATEFUL_SET = "podManagementPolicy revisionHistoryLimit selector serviceName volumeClaimTemplates"
_POD = (
    "affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases "
    "hostIPC hostNetwork hostPID hostname imagePullSecrets nodeName nodeSelector overhead "
    "preemptionPolicy priority priorityClassName readinessGates restartPolicy runtimeClassName "
    "schedulerName securityContext serviceAccount serviceAccountName shareProcessNamespace "
    "subdomain terminationGracePeriodSeconds volumes"
)
_CONTAINER = (
    "args command env image imagePullPolicy lifecycle livenessProbe ports readinessProbe "
    "resources securityContext stdin stdinOnce terminationMessagePath terminationMessagePolicy "
    "tty volumeDevices volumeMounts workingDir"
)


def _in(prefix: str, names: str) -> tuple[Path, ...]:
    return tuple((*prefix.split("."), name) for name in names.split())


_FIELDS: Mapping[tuple[str, str, str], tuple[Path, ...]] = {
    **{
        ("apps", version, kind): _in("spec", names)
        for version in ("v1", "v1beta2")
        for kind, names in (
            ("DaemonSet", "selector"),
            ("Deployment", "selector"),
            ("StatefulSet", _STATEFUL_SET),
        )
    },
    ("batch", "v1", "Job"): _in("spec", "completions parallelism selector template"),
    ("policy", "v1beta1", "PodDisruptionBudget"): (("spec",),),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"): (("roleRef",),),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"): (("roleRef",),),
    ("storage.k8s.io", "v1", "StorageClass"): (("parameters",), ("provisioner",)),
    ("", "v1", "PersistentVolume"): _in("spec", _VOLUME_SOURCES),
    ("", "v1", "PersistentVolumeClaim"): _in(
        "spec", "accessModes selector storageClassName volumeName"
    ),
    ("", "v1", "Pod"): (
        *_in("spec", _POD),
        *_in("spec.containers", _CONTAINER),
        *_in("spec.initContainers", _CONTAINER),
    ),
    ("", "v1", "ResourceQuota"): _in("spec", "scopes"),
    ("", "v1", "Secret"): (("type",),),
    ("", "v1", "Service"): _in("spec", "clusterIP"),
}
_IDENTITY: tuple[Path, ...] = (("metadata", "name"), ("metadata", "namespace"))
_SECRET_CONTENT: tuple[Path, ...] = (("data",), ("stringData",))
_CONFIG_MAP_CONTENT: tuple[Path, ...] = (("data",), ("binaryData",))


def fixed_fields(
    obj: Mapping[str, Any], *, config_map_mutable: bool, secret_mutable: bool
) -> tuple[Path, ...]:
    """Return the paths in `obj` whose change replaces it; list indices are left out of them."""
    kind = Kind.of_object(obj)
    fields = _IDENTITY + _FIELDS.get((kind.group, kind.version, kind.kind), ())
    frozen = obj.get("immutable") is True
    if (kind.group, kind.kind) == ("", "Secret") and (frozen or not secret_mutable):
        fields += _SECRET_CONTENT
    if (kind.group, kind.kind) == ("", "ConfigMap") and (frozen or not config_map_mutable):
        fields += _CONFIG_MAP_CONTENT
    return fields


def touches(
    path: Sequence[str | int], before: object, after: object, fields: Sequence[Path]
) -> bool:
    """Tell whether a change at `path` reaches one of `fields`, inside or around it."""
    names = tuple(step for step in path if isinstance(step, str))
    return any(
        names[: len(field)] == field
        or (
            field[: len(names)] == names
            and (_holds(before, field[len(names) :]) or _holds(after, field[len(names) :]))
        )
        for field in fields
    )


def _holds(value: object, rest: Path) -> bool:
    if isinstance(value, list):
        return any(_holds(item, rest) for item in value)
    if not rest:
        return value is not None
    return isinstance(value, Mapping) and _holds(value.get(rest[0]), rest[1:])
