"""A job's volumes, including the one for its script, in pod specs and as Kubernetes objects."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from core import manifests
from core.fields import size
from core.manifests import KEPT, Manifest, owned
from jobs.model.names import OWN_VOLUMES
from jobs.model.parts import Volume

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob
    from jobs.model.program import Share

_TEXT = re.compile("[\t\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
"""Matches text that pulumi-kubernetes's YAML handling leaves unchanged."""


class MountedScript(TypedDict):
    """A job's script in a ConfigMap."""

    name: str  # of the ConfigMap; it changes with the files' content
    entry: str  # the file to start
    items: Mapping[str, str]  # each path in the script's folder, by its key in the ConfigMap


@dataclass(frozen=True)
class Script:
    """A job's script files, which `jobs.sources` reads, and their immutable ConfigMap."""

    job: str
    entry: str  # the file to start
    files: Mapping[str, bytes]  # by their path in its folder
    left_out: Sequence[str] = ()  # files that can't be in a ConfigMap

    @property
    def name(self) -> str:
        """The ConfigMap's name; it contains a hash of the files, as a ConfigMap is immutable."""
        digest = hashlib.sha256(self.entry.encode())
        for path, content in sorted(self.files.items()):
            digest.update(f"\0{path}\0{len(content)}\0".encode() + content)
        return f"{self.job}-script-{digest.hexdigest()[:10]}"

    @property
    def items(self) -> dict[str, str]:
        """The files' paths, keyed by their keys in the ConfigMap, which can't contain slashes."""
        items: dict[str, str] = {}
        for path in sorted(self.files):
            plain = re.sub(r"[^-._a-zA-Z0-9]", "_", path)[-200:]
            number = sum(key == plain or key.startswith(f"{plain}.") for key in items)
            items[f"{plain}.{number}" if plain in items else plain] = path
        return items

    @property
    def mounted(self) -> MountedScript:
        return {"name": self.name, "entry": self.entry, "items": self.items}

    def config_map(self, namespace: str) -> Manifest:
        """Return the ConfigMap; if possible, files are stored as text, which a preview can show."""
        contents: dict[str, dict[str, str]] = defaultdict(dict)
        for key, path in self.items.items():
            content = self.files[path]
            text = content.decode(errors="replace")
            if text.encode() == content and _TEXT.fullmatch(text):
                contents["data"][key] = text
            else:
                contents["binaryData"][key] = base64.b64encode(content).decode()
        return {**owned("ConfigMap", self.name, namespace), "immutable": True, **contents}


def claim_name(job: str, name: str, volume: Volume) -> str:
    """Return the name of a volume's claim; for a host path, it contains a hash of the path."""
    if volume.claim is not None:
        return volume.claim
    if volume.host_path is None:
        return f"{job}-{name}"
    source = f"{volume.host_path}:{volume.read_only}".encode()
    return f"{job}-{name}-{hashlib.sha256(source).hexdigest()[:8]}"


def pod_volumes(
    job: TrainingJob, share: Share, script: MountedScript | None
) -> list[dict[str, Any]]:
    """Return a pod's volumes: for temporary files, shared memory, work, the script and the job."""
    half = f"{max(1, size(share.memory_limit) // 2**21)}Mi"
    shared = half if job.shared_memory is None else job.shared_memory
    own: dict[str, dict[str, Any]] = {
        "tmp": {"emptyDir": {}},
        "shm": {"emptyDir": {"medium": "Memory", "sizeLimit": shared}},
        "work": {"emptyDir": {}},
    }
    if script is not None:
        items = [{"key": key, "path": path} for key, path in sorted(script["items"].items())]
        files = {"name": script["name"], "items": items, "defaultMode": 0o555}
        own["script"] = {"configMap": files}
    for name, volume in job.volumes.items():
        if (most := volume.empty_dir) is None:
            own[name] = of_claim(claim_name(job.origin, name, volume))
        else:
            own[name] = {"emptyDir": {} if most is True else {"sizeLimit": most}}
    return [{"name": name, **source} for name, source in own.items()]


def mounts(job: TrainingJob, script: MountedScript | None) -> list[dict[str, Any]]:
    """Return the mounts for the volumes that `pod_volumes` returns."""
    places = [(name, path, False) for name, path in OWN_VOLUMES.items() if name != "script"]
    places += [] if script is None else [("script", OWN_VOLUMES["script"], True)]
    places += [(name, each.mount_path, each.read_only) for name, each in job.volumes.items()]
    return [
        {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
        for name, path, read_only in places
    ]


def host_volumes(job: TrainingJob, namespace: str) -> Iterator[Manifest]:
    """Yield the volume and claim for each of `job`'s host paths, in order of creation."""
    for name, volume in job.volumes.items():
        if volume.host_path is None:
            continue
        objects = manifests.rendered(
            Path(__file__).with_name("host_volume.yaml"),
            name=claim_name(job.origin, name, volume),
            namespace=namespace,
            mode="ReadOnlyMany" if volume.read_only else "ReadWriteOnce",
        )
        # With this type, a missing directory is an error, not an empty volume.
        objects[0]["spec"]["hostPath"] = {"path": volume.host_path, "type": "Directory"}
        yield from objects


def claims(job: TrainingJob, namespace: str) -> Iterator[tuple[Manifest, bool]]:
    """Yield the claim for each of `job`'s volumes that has a size, and whether it is kept."""
    for name, volume in job.volumes.items():
        if volume.size is not None:
            stays, own = volume.keep is not False, claim_name(job.origin, name, volume)
            yield claim(own, namespace, volume.size, keep=stays), stays


def claim(  # noqa: PLR0913  # its name, and the options of a claim
    name: str,
    namespace: str,
    size: str,
    *,
    mode: str = "ReadWriteOnce",
    storage_class: str | None = None,
    keep: bool = False,
) -> Manifest:
    """Return a claim; if `keep` is set, it is retained even when it is no longer declared.

    `mode` is a Kubernetes access mode; if `storage_class` is None, the cluster's default is used.
    """
    chosen = {} if storage_class is None else {"storageClassName": storage_class}
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": size}}, **chosen}
    manifest = {**owned("PersistentVolumeClaim", name, namespace), "spec": spec}
    manifest["metadata"]["annotations"] = {KEPT: str(keep).lower()}
    return manifest


def of_claim(name: str) -> dict[str, Any]:
    """Return a pod volume's source for a claim."""
    return {"persistentVolumeClaim": {"claimName": name}}
