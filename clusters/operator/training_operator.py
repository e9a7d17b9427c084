"""Kubeflow's training operator: an existing one, or one for PyTorchJobs in a single namespace."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pulumi

from clusters.cloud_reports import as_input
from clusters.cluster import Cluster
from clusters.image_registry import with_pull_secret
from clusters.operator import NAME, NAMESPACE, REQUESTS
from core import tokens, toolchain
from core.declare import declare, declare_all
from core.manifests import Manifest, digest, marked, read, rendered, restricted_namespace

_WEBHOOK = "validator.training-operator.kubeflow.org"
"""The name by which the operator finds its webhook (`webhookConfigurationName` in its main.go)."""
_HERE = Path(__file__).parent


class TrainingOperator(pulumi.ComponentResource):
    """The operator, and the resource `ready`, after which PyTorchJobs can be submitted."""

    ready: pulumi.Resource

    def __init__(self, name: str, *, cluster: Cluster, after: Sequence[pulumi.Resource]) -> None:
        super().__init__(tokens.TRAINING_OPERATOR, name)
        # Not passed to the component itself: Pulumi can't skip one whose dependency failed.
        properties: dict[str, Any] = {
            "kubeconfig": pulumi.Output.secret(cluster.kubeconfig),
            "jobNamespace": cluster.namespace,
            **({} if cluster.own_namespace else {"shared": True}),
            **as_input(cluster.refused_pulls),
        }
        if cluster.operator is None:
            inside = cluster.options(parent=self, depends_on=after)
            running, rollout = _install(cluster, inside)
            after = [*after, running]
            # The rollout changes with the Deployment, so that `ready` waits for the new pod.
            properties |= {"deployment": NAME, "rollout": rollout}
        else:
            existing = asdict(cluster.operator).items()
            properties["existing"] = {key: value for key, value in existing if value is not None}
        # Deleting `ready` stops all runs, so it must not follow the replacement, and new runs.
        opts = pulumi.ResourceOptions(parent=self, depends_on=after, delete_before_replace=True)
        self.ready = pulumi.CustomResource(tokens.OPERATOR_READY, name, properties, opts)
        self.register_outputs({})


def _install(cluster: Cluster, child: pulumi.ResourceOptions) -> tuple[pulumi.Resource, str]:
    """Declare the operator's objects, and return its Deployment and the Deployment's digest."""
    source, jobs = toolchain.path("training-operator-manifests"), cluster.namespace
    image, wait_image = cluster.images["training-operator"], cluster.images["tcp-wait"]
    namespace, definition, *others, webhook = foundations(source, jobs, wait_image)
    home = declare(marked(namespace), child)
    inside = _with(child, depends_on=[home])
    inner = with_pull_secret([marked(definition), *others], NAMESPACE, cluster.pull_secret)
    # The operator writes its CA into this field, and does so again when the CA rotates.
    ignored = _with(inside, ignore_changes=["webhooks[*].clientConfig.caBundle"])
    needed = [*declare_all(inner, inside), declare(webhook, ignored)]
    program = deployment(source, jobs, image, wait_image)
    return declare(marked(program), _with(child, depends_on=[home, *needed])), digest(program)


def _with(opts: pulumi.ResourceOptions, **more: Any) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(**more))


def foundations(source: Path, job_namespace: str, wait_image: str) -> list[Manifest]:
    """Return the objects that must exist before the operator starts, in creation order.

    `source` is the release's `manifests` directory; `wait_image` is for workers' init containers.
    """
    base, placed = source / "base", {"namespace": NAMESPACE}
    # Otherwise Pulumi would wait for the pods of a Deployment that does not exist yet.
    not_awaited = {"pulumi.com/skipAwait": "true"}
    # Only the release's webhook for PyTorchJobs, with the name and service that the release's
    # overlay sets. The operator adds the CA.
    webhooks = read(base / "webhook" / "manifests.yaml")
    (webhook,) = (each for each in webhooks["webhooks"] if "pytorchjob" in each["name"].split("."))
    webhook["clientConfig"]["service"] |= {"name": NAME, "namespace": NAMESPACE}
    return [
        restricted_namespace(NAMESPACE),
        read(base / "crds" / "kubeflow.org_pytorchjobs.yaml"),
        _merged(read(base / "rbac" / "service-account.yaml"), {"metadata": placed}),
        *rendered(_HERE / "additions.yaml", jobs=job_namespace, wait_image=wait_image),
        _merged(read(base / "service.yaml"), {"metadata": {**placed, "annotations": not_awaited}}),
        webhooks | {"metadata": {"name": _WEBHOOK}, "webhooks": [webhook]},
    ]


def deployment(source: Path, job_namespace: str, image: str, wait_image: str) -> Manifest:
    """Return the Deployment for the operator's `image`; see `foundations` for other parameters."""
    images = {"image": image, "wait_image": wait_image}
    (different,) = rendered(_HERE / "deployment.yaml", jobs=job_namespace, **images, **REQUESTS)
    return cast("Manifest", _merged(read(source / "base" / "deployment.yaml"), different))


def _merged(base: Any, different: Any) -> Any:
    """Return `base` with a strategic merge patch applied, which merges list items by name.

    https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
    """
    if isinstance(base, dict) and isinstance(different, dict):
        return base | {key: _merged(base.get(key), value) for key, value in different.items()}
    if isinstance(base, list) and isinstance(different, list):
        named = ({each["name"]: each for each in items} for items in (base, different))
        return [*_merged(*named).values()]
    return different
