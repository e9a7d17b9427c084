"""The default StorageClass, served by `clusters.embedded.provisioner`."""

from typing import Any

PROVISIONER = "slipway.local/directory"
STORAGE_CLASS = "slipway-directory"


def manifests() -> list[dict[str, Any]]:
    """The class that a claim gets which names none."""
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            # There is one node, so there is nothing to wait for.
            "volumeBindingMode": "Immediate",
        }
    ]
