"""The training operator's objects: its release's own manifests, cut down to PyTorchJobs.

Pure functions from the files of the release to plain dicts. The release serves six kinds of
job in every namespace; here it serves PyTorchJobs in the job namespace, and may do no more.
"""

from copy import deepcopy
from pathlib import Path

import yaml

from clusters.training_operator import NAME, NAMESPACE, REQUESTS
from core.manifests import Manifest, read, restricted_namespace
from infra.namespace import grant, rule

CERTIFICATE = "training-operator-webhook-cert"
"""The Secret that the operator fills with its webhook's certificate."""
WEBHOOK = "validator.training-operator.kubeflow.org"
"""The operator looks its webhook up by this name (`webhookConfigurationName` in its main.go)."""
_INIT_CONTAINER = "training-operator-init-container"
_TEMPLATE_DIRECTORY = "/etc/training-operator"
_TEMPLATE_FILE = "init-container.yaml"
_MASTER_PORT = 23456  # PyTorchJobDefaultPort
_NONROOT = 65532
_LEAVES_SECONDS = 10
"""How long it stays on a node that does not answer; pods that do not say so stay 5 minutes."""
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": _NONROOT,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def foundations(source: Path, job_namespace: str, wait_image: str) -> list[Manifest]:
    """Return everything that has to exist before the operator starts, in order.

    Args:
        source: The release's `manifests` directory.
        job_namespace: The only namespace whose PyTorchJobs it looks after.
        wait_image: Image whose entry point waits for HOST:PORT, for the workers' init container.
    """
    base = source / "base"
    return [
        restricted_namespace(NAMESPACE),
        read(base / "crds" / "kubeflow.org_pytorchjobs.yaml"),
        _placed(read(base / "rbac" / "service-account.yaml")),
        *rights(job_namespace),
        _certificate(),
        _init_container(wait_image),
        _not_awaited(_placed(read(base / "service.yaml"))),
        _webhook(read(base / "webhook" / "manifests.yaml")),
    ]


def deployment(source: Path, job_namespace: str, image: str, wait_image: str) -> Manifest:
    """Return the operator's Deployment.

    Args:
        source: As for `foundations`.
        job_namespace: As for `foundations`.
        image: The operator's own.
        wait_image: As for `foundations`; the operator reads its template once, so a new image
            restarts it.
    """
    manifest = _not_awaited(_placed(read(source / "base" / "deployment.yaml")))
    # Two at a time would both act on each job: one replica runs without leader election.
    manifest["spec"]["strategy"] = {"type": "Recreate"}
    template = manifest["spec"]["template"]
    template["metadata"]["annotations"]["slipway.dev/init-container-image"] = wait_image
    pod = template["spec"]
    # Without it no job is judged or submitted, also not the one that goes on elsewhere.
    pod["tolerations"] = [
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _LEAVES_SECONDS,
        }
        for condition in ("not-ready", "unreachable")
    ]
    pod["volumes"].append({"name": "init-container", "configMap": {"name": _INIT_CONTAINER}})
    (container,) = pod["containers"]
    container |= {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "--enable-scheme=pytorchjob",
            f"--namespace={job_namespace}",
            f"--pytorch-init-container-template-file={_TEMPLATE_DIRECTORY}/{_TEMPLATE_FILE}",
            "--zap-log-level=info",
        ],
        "resources": {
            "requests": REQUESTS,
            "limits": {"memory": "256Mi"},
        },
        "securityContext": _RESTRICTED,
        # Its certificate takes it two seconds or three, and each probe before that leaves a
        # warning in the events. The release waits 10 s, and 15 s more each time.
        "readinessProbe": _probe("/readyz", after=2, every=1),
        "livenessProbe": _probe("/healthz", after=15, every=20),
    }
    container["volumeMounts"].append(
        {"name": "init-container", "mountPath": _TEMPLATE_DIRECTORY, "readOnly": True}
    )
    return manifest


def rights(job_namespace: str) -> list[Manifest]:
    """Return the operator's roles and their bindings.

    Its release requires rights to six kinds of job in every namespace. These are what its source
    uses for PyTorchJobs in one namespace: the reconciler in `pkg/controller.v1/pytorch` and
    `common`, and the webhook's certificate in `pkg/cert`, v1.9.4.

    Args:
        job_namespace: The only namespace whose PyTorchJobs it looks after.
    """
    account = (NAMESPACE, NAME)
    webhooks = "validatingwebhookconfigurations"
    # It watches all objects of some kinds, and a list can't be restricted by name.
    return [
        *grant(
            "training-operator-jobs",
            job_namespace,
            rule("kubeflow.org", ["pytorchjobs"], ["delete", "get", "list", "watch"]),
            rule("kubeflow.org", ["pytorchjobs/status"], ["update"]),
            # Required by clusters with the admission plugin OwnerReferencesPermissionEnforcement.
            rule("kubeflow.org", ["pytorchjobs/finalizers"], ["update"]),
            rule("", ["pods"], ["create", "delete", "get", "list", "patch", "watch"]),
            rule("", ["services"], ["create", "delete", "get", "list", "watch"]),
            rule("", ["events"], ["create", "patch"]),
            account=account,
        ),
        *grant(
            "training-operator-certificate",
            NAMESPACE,
            rule("", ["secrets"], ["list", "watch"]),
            rule("", ["secrets"], ["update"], [CERTIFICATE]),
            account=account,
        ),
        *grant(
            "training-operator-webhook",
            None,
            rule("admissionregistration.k8s.io", [webhooks], ["list", "watch"]),
            rule("admissionregistration.k8s.io", [webhooks], ["update"], [WEBHOOK]),
            account=account,
        ),
    ]


def _not_awaited(manifest: Manifest) -> Manifest:
    """Return `manifest` with the annotation by which Pulumi does not wait for it.

    `OperatorReady` waits for the webhook's answer, which is the stronger condition. The Service
    would even wait for pods of a Deployment that is declared after it.
    """
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), "pulumi.com/skipAwait": "true"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _placed(manifest: Manifest) -> Manifest:
    """Return `manifest` in the operator's namespace, as the release's overlay does."""
    placed = deepcopy(manifest)
    placed["metadata"]["namespace"] = NAMESPACE
    return placed


def _certificate() -> Manifest:
    """Return the empty Secret that the operator expects to find and fills itself."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CERTIFICATE, "namespace": NAMESPACE},
    }


def _init_container(image: str) -> Manifest:
    """Return the template of the container that holds a worker back until its master is up.

    The operator's own looks the master's name up with a shell and an image that it has to
    pull. `{{.MasterAddr}}` is filled in by the operator (`pkg/controller.v1/pytorch`).
    """
    container = {
        "name": "wait-for-master",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        # As long as nodes may have to be made first (`jobs.adapt.GROWN_SECONDS`).
        "args": ["-limit", "30m", "-every", "250ms", f"{{{{.MasterAddr}}}}:{_MASTER_PORT}"],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "100m", "memory": "32Mi"},
        },
        "securityContext": _RESTRICTED,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _INIT_CONTAINER, "namespace": NAMESPACE},
        "data": {_TEMPLATE_FILE: yaml.safe_dump([container], sort_keys=False)},
    }


def _webhook(manifest: Manifest) -> Manifest:
    """Return the release's webhooks with the one for PyTorchJobs alone.

    Name and service as its overlay patches them. The operator adds the CA to it.
    """
    (webhook,) = (
        hook for hook in deepcopy(manifest["webhooks"]) if "pytorchjob" in hook["name"].split(".")
    )
    webhook["clientConfig"]["service"] |= {"name": NAME, "namespace": NAMESPACE}
    return manifest | {"metadata": {"name": WEBHOOK}, "webhooks": [webhook]}


def _probe(path: str, *, after: int, every: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": 8081},
        "initialDelaySeconds": after,
        "periodSeconds": every,
        "timeoutSeconds": 3,
    }
