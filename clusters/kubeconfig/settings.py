"""The settings in `slipway:cluster` for the kind `kubeconfig`; their keys are camelCase."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.image_registry import Images, Registry
from clusters.nodes import DEVICE_PLUGIN, Taint
from core.fields import CONFIG, Count, LabelKey, LabelValue, Positive, texts
from core.problem import Contradiction, contradiction
from core.validation import Consistent
from images.targets.registry_login import host

Requested = Literal["auto", "install", "existing"]
_text = texts(__file__)
Path = Annotated[str, _text("path")]
Content = Annotated[dict[str, Any] | str, _text("content")]
Context = Annotated[str, _text("context")]
Namespace = Annotated[str, _text("namespace")]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Gpus:
    """The GPU nodes.

    Args:
        per_node: Number of `nvidia.com/gpu` resources on each of these nodes.
        nodes: Minimum number of nodes; if 0, nodes are created when a job needs them.
        max_nodes: Maximum number of nodes; by default unknown.
        labels: Labels that only these nodes have.
        taints: Taints on these nodes.
        interface: The pods' network interface that NCCL and Gloo use.
        device_plugin: Let Slipway install NVIDIA's device plugin; most clusters already have it.
    """

    per_node: Positive
    nodes: Count = 1
    max_nodes: Positive | None = None
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    interface: Annotated[str, _text("interface")] = "eth0"
    device_plugin: bool = False


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class KubeconfigSettings(Consistent):
    """An existing cluster, and what a stack may use in it.

    Args:
        path: Path to the kubeconfig; by default $KUBECONFIG, or else ~/.kube/config.
        kubeconfig: Content of a kubeconfig, as a string or a map. Set it instead of `path` in a
            program that has just created the cluster. A secret.
        context: Context in the kubeconfig; by default the current one.
        namespace: Existing namespace for jobs; by default `slipway-jobs` is created.
        operator: Install the training operator (`install`), use an existing one (`existing`), or
            install it only if there is none (`auto`).
        registry: Registry that images are pushed to and pulled from.
        images: Prebuilt images.
        disconnected: Set this if nodes can reach no registry other than `registry`.
        gpus: The GPU nodes; by default none.
    """

    path: Path | None = None
    kubeconfig: Content | None = field(default=None, repr=False)
    context: Context | None = None
    namespace: Namespace | None = None
    operator: Requested = "auto"
    registry: Registry | None = None
    images: Images | None = None
    disconnected: bool = False
    gpus: Gpus | None = None

    def contradictions(self) -> Iterator[Contradiction]:
        registry, gpus = self.registry, self.gpus
        if self.path is not None and self.kubeconfig is not None:
            text = "can't be combined with `kubeconfig`, which replaces a file; remove one of them"
            yield contradiction(("path",), text, "kubeconfig")
        if registry is None:
            yield from _missing(self)
            if self.disconnected:
                text = "requires a `registry` that nodes can reach; set one, or remove "
                yield contradiction(("disconnected",), f"{text}this setting", "registry")
        elif self.disconnected:
            yield from _unmirrored(registry, gpus)
        if gpus is not None and gpus.max_nodes is not None and gpus.max_nodes < gpus.nodes:
            text = f"{gpus.max_nodes} is less than `gpus.nodes`, {gpus.nodes}; raise it, or lower "
            yield contradiction(("gpus", "maxNodes"), f"{text}`gpus.nodes`", "gpus.nodes")


def _unmirrored(registry: Registry, gpus: Gpus | None) -> Iterator[Contradiction]:
    """Yield images that nodes would have to pull from a registry that they can't reach."""
    about, server = ("disconnected", "registry"), registry.host
    for public, private in registry.mirrors.items():
        if host(private) != server:
            text = f"{private} must be in {server}, as `disconnected` nodes reach no other registry"
            yield contradiction(("registry", "mirrors", public), text, *about)
    if gpus is not None and gpus.device_plugin and DEVICE_PLUGIN not in registry.mirrors:
        text = f"lacks {DEVICE_PLUGIN}, which `gpus.devicePlugin` installs; push a copy and add it"
        yield contradiction(("registry", "mirrors"), text, *about, "gpus")


def _missing(settings: KubeconfigSettings) -> Iterator[Contradiction]:
    """Yield images that must be set, because there is no registry to push them to."""
    about = ("registry", "images", "gpus", "operator")
    images = settings.images
    if images is None:
        text = (
            "is missing: nodes need to pull images; set `registry`, to which images built on this "
            "machine are pushed, or `images`, which already exist"
        )
        yield contradiction(("images",), text, *about)
        return
    needed = {"trainer": (images.trainer, "jobs use it")}
    if settings.gpus is not None:
        needed["trainerCuda"] = (images.trainer_cuda, "jobs on `gpus` use it")
    if settings.operator == "install":
        needed["trainingOperator"] = (images.training_operator, "`operator: install` requires it")
        needed["tcpWait"] = (images.tcp_wait, "`operator: install` requires it")
    for name, (image, why) in needed.items():
        if image is None:
            text = f"is missing, but {why}; set the image, or a `registry` to push it to"
            yield contradiction(("images", name), text, *about)
