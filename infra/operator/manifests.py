"""The training operator's objects: its release's own manifests, cut down to PyTorchJobs.

Pure functions from the files of the release to plain dicts. The release serves six kinds of
job in every namespace; here it serves PyTorchJobs in the job namespace, and may do no more.
"""

from pathlib import Path
from typing import Any, cast

from clusters.training_operator import NAME, NAMESPACE, REQUESTS
from core.manifests import Manifest, read, rendered, restricted_namespace

CERTIFICATE = "training-operator-webhook-cert"
"""The Secret that the operator fills with its webhook's certificate."""
WEBHOOK = "validator.training-operator.kubeflow.org"
"""The operator looks its webhook up by this name (`webhookConfigurationName` in its main.go)."""
_HERE = Path(__file__).parent


def foundations(source: Path, job_namespace: str, wait_image: str) -> list[Manifest]:
    """Return everything that has to exist before the operator starts, in order.

    Args:
        source: The release's `manifests` directory.
        job_namespace: The only namespace whose PyTorchJobs it looks after.
        wait_image: Image whose entry point waits for HOST:PORT, for the workers' init container.
    """
    base, placed = source / "base", {"namespace": NAMESPACE}
    # Pulumi would wait for pods of a Deployment that is declared after it.
    not_awaited = {"pulumi.com/skipAwait": "true"}
    return [
        restricted_namespace(NAMESPACE),
        read(base / "crds" / "kubeflow.org_pytorchjobs.yaml"),
        _merged(read(base / "rbac" / "service-account.yaml"), {"metadata": placed}),
        *rendered(_HERE / "additions.yaml", jobs=job_namespace, wait_image=wait_image),
        _merged(read(base / "service.yaml"), {"metadata": {**placed, "annotations": not_awaited}}),
        _webhook(read(base / "webhook" / "manifests.yaml")),
    ]


def deployment(source: Path, job_namespace: str, image: str, wait_image: str) -> Manifest:
    """Return the Deployment of the operator's image; the rest is as for `foundations`."""
    images = {"image": image, "wait_image": wait_image}
    (different,) = rendered(_HERE / "deployment.yaml", jobs=job_namespace, **images, **REQUESTS)
    return cast("Manifest", _merged(read(source / "base" / "deployment.yaml"), different))


def _merged(base: Any, different: Any) -> Any:
    """Return `base` with what is different, as in a strategic merge patch: lists go by name.

    https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
    """
    if isinstance(base, dict) and isinstance(different, dict):
        changed = {key: _merged(base.get(key), value) for key, value in different.items()}
        return {**base, **changed}
    if isinstance(base, list) and isinstance(different, list):
        named = {each["name"]: each for each in base}
        changed = {each["name"]: _merged(named.get(each["name"]), each) for each in different}
        return [*(named | changed).values()]
    return different


def _webhook(manifest: Manifest) -> Manifest:
    """Return the release's webhooks with the one for PyTorchJobs alone.

    Name and service as its overlay patches them. The operator adds the CA to it.
    """
    (webhook,) = (hook for hook in manifest["webhooks"] if "pytorchjob" in hook["name"].split("."))
    webhook["clientConfig"]["service"] |= {"name": NAME, "namespace": NAMESPACE}
    return manifest | {"metadata": {"name": WEBHOOK}, "webhooks": [webhook]}
