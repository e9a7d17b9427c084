"""The settings of `slipway:cluster` for the kind `kubeconfig`; its keys are camelCase."""

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
    """The nodes with GPUs.

    Args:
        per_node: `nvidia.com/gpu` that each of these nodes offers.
        nodes: Minimum number of nodes; with 0 the first job's request creates one.
        max_nodes: Maximum number of nodes; by default unknown.
        labels: Labels that these nodes have and no others.
        taints: Taints of these nodes.
        interface: Network interface of pods, which NCCL and Gloo use.
        device_plugin: Whether Slipway installs NVIDIA's device plugin; most clusters have it.
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
        path: Path of the kubeconfig; by default $KUBECONFIG, or else ~/.kube/config.
        kubeconfig: Content of a kubeconfig instead, as text or a map, in a program that has just
            created the cluster. A secret.
        context: Context of the kubeconfig; by default the current one.
        namespace: Existing namespace for jobs; by default `slipway-jobs` is created.
        operator: Whether the training operator is installed, has to exist, or is installed only
            if there is none.
        registry: Registry that images are pushed to and pulled from.
        images: Prebuilt images.
        disconnected: Whether nodes only reach that registry.
        gpus: The nodes with GPUs; by default none.
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
            text = "names a file, and `kubeconfig` is the content of one; leave one of them out"
            yield contradiction(("path",), text, "kubeconfig")
        if registry is None:
            yield from _missing(self)
            if self.disconnected:
                text = "needs a `registry`, as nodes only reach that one; name it, or leave "
                yield contradiction(("disconnected",), f"{text}this out", "registry")
        elif self.disconnected:
            yield from _unmirrored(registry, gpus)
        if gpus is not None and gpus.max_nodes is not None and gpus.max_nodes < gpus.nodes:
            text = f"{gpus.max_nodes} is less than `gpus.nodes`, {gpus.nodes}; raise it, or lower "
            yield contradiction(("gpus", "maxNodes"), f"{text}that", "gpus.nodes")


def _unmirrored(registry: Registry, gpus: Gpus | None) -> Iterator[Contradiction]:
    """Yield images that the nodes would pull from a registry that they can't reach."""
    about, server = ("disconnected", "registry"), registry.host
    for public, private in registry.mirrors.items():
        if host(private) != server:
            text = f"{private} is not in {server}, which `disconnected` nodes reach alone; copy it"
            yield contradiction(("registry", "mirrors", public), text, *about)
    if gpus is not None and gpus.device_plugin and DEVICE_PLUGIN not in registry.mirrors:
        text = (
            f"lacks {DEVICE_PLUGIN}, which `gpus.devicePlugin` installs; copy it, and name the copy"
        )
        yield contradiction(("registry", "mirrors"), text, *about, "gpus")


def _missing(settings: KubeconfigSettings) -> Iterator[Contradiction]:
    """Yield the images that are missing, without a registry to push them to."""
    about = ("registry", "images", "gpus", "operator")
    images = settings.images
    if images is None:
        text = (
            "is missing: say how images get into the cluster, by `registry` (they are built here "
            "and pushed there) or `images` (they are there already)"
        )
        yield contradiction(("images",), text, *about)
        return
    needed = {"trainer": (images.trainer, "jobs run it")}
    if settings.gpus is not None:
        needed["trainerCuda"] = (images.trainer_cuda, "jobs on `gpus` run it")
    if settings.operator == "install":
        needed["trainingOperator"] = (images.training_operator, "`operator: install` needs it")
        needed["tcpWait"] = (images.tcp_wait, "`operator: install` needs it")
    for name, (image, why) in needed.items():
        if image is None:
            text = f"is missing, and {why}; name the image, or a `registry` to push it to"
            yield contradiction(("images", name), text, *about)
