"""Inspect an existing cluster, selected by a kubeconfig context, before declaring anything.

All stacks use the same names for their objects in a cluster, so two stacks in the same cluster
would conflict. The functions `require_…` raise `Unusable` to prevent that.
"""

import json
from collections.abc import Iterable

import pulumi
from pulumi.runtime.rpc import UNKNOWN

from clusters import support
from clusters.cluster import JOBS, ONE_AT_A_TIME, Cluster, ExistingOperator
from clusters.image_registry import Images
from clusters.kubeconfig.choice import Choice, Unusable, choose
from clusters.kubeconfig.found import Found, decide
from clusters.kubeconfig.look import look
from clusters.kubeconfig.settings import KubeconfigSettings
from clusters.nodes import GpuPool
from clusters.operator import NAMESPACE as OPERATOR_NAMESPACE
from core.declare import provider_of
from core.manifests import stack
from images.resource import helper_images


def gpus(settings: KubeconfigSettings) -> GpuPool | None:
    """Return the GPU nodes that the settings describe, or None if there are none."""
    if settings.gpus is None:
        return None
    pool = vars(settings.gpus)
    return GpuPool(min_nodes=pool["nodes"], **{key: pool[key] for key in pool if key != "nodes"})


def provision(settings: KubeconfigSettings) -> Cluster:
    """Inspect the cluster and declare its provider, or raise `Unusable`."""
    namespace = JOBS if settings.namespace is None else settings.namespace
    if UNKNOWN in json.dumps(settings.kubeconfig):
        choice, facts, operator = _presumed(settings)
    else:
        choice = choose(settings.path, settings.context, settings.kubeconfig)
        facts = look(choice, namespace)
        operator = _fitting(settings, choice, facts, namespace)
    kubeconfig: pulumi.Output[str] = pulumi.Output.secret(choice.kubeconfig)
    registry, prebuilt = settings.registry, settings.images or Images()
    target = prebuilt.target(None if registry is None else registry.target())
    images, needs = helper_images(target) if operator is None else ({}, [])
    ignored = ["clusterIdentifier"] if stack() in {facts.jobs_of, facts.made_by} else None
    return Cluster(
        kind="kubeconfig",
        # New credentials do not mean a different cluster, nor does a new address of one with the
        # stack's objects: replacing them would apply the same objects, and then delete them.
        provider=provider_of(pulumi.get_stack(), kubeconfig, choice.server, needs, ignored),
        kubeconfig=kubeconfig,
        image_target=target,
        images=images,
        gpus=gpus(settings),
        namespace=namespace,
        own_namespace=settings.namespace is None,
        operator=operator,
        mirrors={} if registry is None else registry.mirrors,
        pull_secret=None if registry is None else registry.pull_secret(),
        no_volume=_no_volume(facts),
    )


def _fitting(
    settings: KubeconfigSettings, choice: Choice, facts: Found, namespace: str
) -> ExistingOperator | None:
    """Check that the stack can use the cluster; return its operator, or None to install one."""
    own = stack()
    require_alone(facts, namespace, own)
    require_namespace(facts, namespace, own, named=settings.namespace is not None)
    operator = decide(settings.operator, facts, stack=own, namespace=namespace)
    if operator is None:
        require_home(facts, own)
    _report(settings, choice, operator)
    support.announce(facts.kubernetes)
    return operator


def _presumed(settings: KubeconfigSettings) -> tuple[Choice, Found, ExistingOperator | None]:
    """Return placeholders for a cluster that the previewed program creates, and its operator."""
    pulumi.log.info("the cluster does not exist yet: this preview assumes a new one")
    images = settings.images or Images()
    prebuilt = {images.training_operator, images.tcp_wait}
    installs = settings.registry is not None or None not in prebuilt
    is_new = settings.operator == "install" or (settings.operator == "auto" and installs)
    choice = Choice(settings.context or "", UNKNOWN, "", kubeconfig=UNKNOWN)
    return choice, Found(default_class=True, nodes=1), None if is_new else ExistingOperator()


def _no_volume(facts: Found) -> str:
    """Return the value for `Cluster.no_volume`; empty if the stack's claim already exists."""
    if facts.claim_of == stack():
        return ""
    if facts.default_class is None:
        return "this account is not allowed to list StorageClasses to find the default one"
    if not facts.default_class:
        return "the cluster has no default StorageClass"
    if facts.nodes is None:
        return f"this account can't list the nodes; if there are several, {ONE_AT_A_TIME}"
    return "" if facts.nodes == 1 else f"jobs can run on {facts.nodes} nodes, and {ONE_AT_A_TIME}"


def require_alone(found: Found, namespace: str, stack: str) -> None:
    """Raise `Unusable` if the operator or the namespace belongs to another stack."""
    installed = [each.made_by for each in found.deployed or ()]
    owners = [found.made_by, found.namespaces.get(OPERATOR_NAMESPACE), *installed]
    if (other := _other(owners, stack)) is not None:
        raise Unusable(
            "",
            f"the stack {other} installed this cluster's training operator, which handles only "
            "that stack's jobs. If Slipway installed a cluster's operator, only one stack can use "
            "that cluster: move the jobs into that stack's slipway:jobs, or use a separate cluster",
        )
    if (other := _other([found.namespaces.get(namespace), found.jobs_of], stack)) is not None:
        raise Unusable(
            "namespace",
            f"{namespace} contains the jobs of the stack {other}, and only one stack can use a "
            "namespace: set another existing one, move the jobs into that stack's slipway:jobs, or "
            "use a separate cluster",
        )


def require_namespace(found: Found, namespace: str, stack: str, *, named: bool) -> None:
    """Raise `Unusable` unless the stack can use the namespace; `named` is true if one is set."""
    if named and namespace not in {*found.namespaces, *found.unseen}:
        raise Unusable(
            "namespace",
            f"{namespace} does not exist, and the stack does not create a namespace that is set "
            f"here; create it (`kubectl create namespace {namespace}`), or remove this setting to "
            "let the stack create its own",
        )
    if not named and found.namespaces.get(namespace, stack) != stack:
        raise Unusable(
            "namespace",
            f"is missing, and {namespace}, which the stack would create, already exists and is not "
            "this stack's; set it here to use it anyway, or set a different existing namespace",
        )


def require_home(found: Found, stack: str) -> None:
    """Raise `Unusable` if the operator's namespace exists and is not the stack's."""
    if found.namespaces.get(OPERATOR_NAMESPACE, stack) != stack:
        raise Unusable(
            "operator",
            "the training operator would be installed in the namespace "
            f"{OPERATOR_NAMESPACE}, which already exists and is not this stack's: its pods would "
            "be subject to a different Pod Security level, and `make down` would remove it. Ask "
            "the namespace's owner to install the training operator, then set `operator: existing`",
        )


def _other(owners: Iterable[str | None], stack: str) -> str | None:
    return next((each for each in owners if each is not None and each != stack), None)


def _report(
    settings: KubeconfigSettings, choice: Choice, operator: ExistingOperator | None
) -> None:
    if settings.context is None and settings.kubeconfig is None:
        pulumi.log.warn(
            f"slipway:cluster.context: is not set, so the current context in {choice.files}, "
            f"{choice.context}, is used; if you switch contexts, the stack moves to that cluster"
        )
    pulumi.log.info(f"cluster {choice.server}, context {choice.context} in {choice.files}")
    if operator is not None:
        version = "" if operator.version is None else f" {operator.version}"
        deployment = f", {operator.namespace}/{operator.deployment}"
        where = "" if operator.deployment is None else deployment
        pulumi.log.info(f"using the existing training operator{version}{where}")
