"""Kubeflow's training operator: installed for PyTorchJobs alone, or an existing one."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pulumi

from clusters.cluster import Cluster
from clusters.training_operator import NAME, NAMESPACE
from core import toolchain
from core.manifests import digest, marked
from infra.declare import declare, declare_all
from infra.namespace import with_pull_secret
from infra.operator.manifests import deployment, foundations


class TrainingOperator(pulumi.ComponentResource):
    """The operator, and `ready`: what is declared after it may submit PyTorchJobs.

    Args:
        cluster: Where it is installed, unless one exists.
        after: What has to exist first: the namespace of the jobs. Each of the operator's resources
            depends on it, since Pulumi can't skip a component whose dependency has failed.

    Raises:
        core.toolchain.ToolMissing: the operator's manifests are missing.
    """

    ready: pulumi.Resource

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("slipway:infra:TrainingOperator", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, depends_on=list(after))
        properties: dict[str, Any] = {
            "kubeconfig": pulumi.Output.secret(cluster.kubeconfig),
            "jobNamespace": cluster.namespace,
            **({} if cluster.own_namespace else {"shared": True}),
        }
        if cluster.operator is None:
            running, rollout = _install(cluster, child)
            # The rollout changes with the Deployment, so that its new pod is waited for.
            properties |= {"deployment": NAME, "rollout": rollout}
            child = _with(child, depends_on=[running])
        else:
            seen = asdict(cluster.operator).items()
            properties["existing"] = {key: value for key, value in seen if value is not None}
        ready = "slipway:infra:OperatorReady"  # see infra.operator.handler
        self.ready = pulumi.CustomResource(ready, name, properties, child)
        self.register_outputs({})


def _install(cluster: Cluster, child: pulumi.ResourceOptions) -> tuple[pulumi.Resource, str]:
    """Declare all of the operator; return its Deployment and that one's digest."""
    source, jobs = toolchain.path("training-operator-manifests"), cluster.namespace
    image, wait_image = cluster.images["training-operator"], cluster.images["tcp-wait"]
    namespace, definition, *others, webhook = foundations(source, jobs, wait_image)
    home = declare(marked(namespace), child)
    inside = _with(child, depends_on=[home])
    inner = with_pull_secret([marked(definition), *others], NAMESPACE, cluster.pull_secret)
    # The operator writes its CA into this field, and again when it rotates.
    ignored = _with(inside, ignore_changes=["webhooks[*].clientConfig.caBundle"])
    needed = [*declare_all(inner, inside), declare(webhook, ignored)]
    program = deployment(source, jobs, image, wait_image)
    return declare(marked(program), _with(child, depends_on=[home, *needed])), digest(program)


def _with(opts: pulumi.ResourceOptions, **more: Any) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(**more))
