"""Kubeflow's training operator, installed for PyTorchJobs alone."""

import hashlib
import json

import pulumi

from clusters.cluster import Cluster
from infra import toolchain
from infra.declare import declare
from infra.manifests import Manifest
from infra.operator_manifests import deployment, foundations
from infra.operator_rights import NAME


class TrainingOperator(pulumi.ComponentResource):
    """The operator, and `ready`: what is declared after it may submit PyTorchJobs.

    Args:
        cluster: Where it is installed.
        job_namespace: The namespace whose PyTorchJobs it runs; it has to be there already.

    Raises:
        infra.toolchain.ToolMissing: the operator's manifests are not there.
    """

    ready: pulumi.Resource

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        job_namespace: str,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("slipway:infra:TrainingOperator", name, None, opts)
        source = toolchain.path("training-operator-manifests")
        image, wait_image = cluster.images["training-operator"], cluster.images["tcp-wait"]
        namespace, *others, webhook = foundations(source, job_namespace, wait_image)
        child = pulumi.ResourceOptions(parent=self)
        home = declare(namespace, child)
        inside = _with(child, depends_on=[home])
        needed = [declare(each, inside) for each in others]
        # The operator writes its CA there, and anew when it rotates.
        ignored = pulumi.ResourceOptions(ignore_changes=["webhooks[*].clientConfig.caBundle"])
        needed.append(declare(webhook, pulumi.ResourceOptions.merge(inside, ignored)))
        program = deployment(source, job_namespace, image, wait_image)
        running = declare(program, _with(child, depends_on=[home, *needed]))
        self.ready = OperatorReady(
            name,
            kubeconfig=cluster.kubeconfig,
            job_namespace=job_namespace,
            rollout=_digest(program),
            opts=_with(child, depends_on=[running]),
        )
        self.register_outputs({})


class OperatorReady(pulumi.CustomResource):
    """Created once the operator's webhook judges PyTorchJobs; see `infra.readiness`.

    Args:
        rollout: Changes with the operator's Deployment, so that its new pod is waited for.
    """

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: pulumi.Input[str],
        job_namespace: str,
        rollout: str,
        opts: pulumi.ResourceOptions,
    ) -> None:
        properties = {
            "kubeconfig": pulumi.Output.secret(kubeconfig),
            "deployment": NAME,
            "jobNamespace": job_namespace,
            "rollout": rollout,
        }
        super().__init__("slipway:infra:OperatorReady", name, properties, opts)


def _with(
    opts: pulumi.ResourceOptions, *, depends_on: list[pulumi.Resource]
) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=depends_on))


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:12]
