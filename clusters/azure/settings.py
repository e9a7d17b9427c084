"""Settings shared by both Azure kinds. In a stack's YAML, their keys are camelCase."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from clusters import image_registry
from clusters.azure.facts import bounds, cards, is_reserved, reserved, unfit
from clusters.nodes import GpuPool, Taint
from core.fields import CONFIG, LabelValue, NodeKey, texts
from core.problem import Contradiction, contradiction, quote
from core.validation import Consistent


def parsed(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator that normalizes a string with `parse`; messages describe the field."""

    def check(text: str) -> str:
        try:
            return str(parse(text))
        except ValueError:
            # Unlike a `ValueError`, its text does not replace the field's description.
            raise PydanticCustomError("unparsed", "can't be parsed") from None

    return AfterValidator(check)


def resource_id(kind: str, takes: str) -> Any:
    """Return a field for the ID of a resource of the type `kind` in a resource group."""
    provider, collection = kind.split("/", 1)
    names = f"{re.escape(provider)}/{collection.replace('/', '/[^/]+/')}/[^/]+"
    group = "/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/]+"
    shown = f"/subscriptions/…/providers/{provider}/{collection.replace('/', '/…/')}/…"
    return Field(pattern=f"(?i)^{group}/providers/{names}$", description=f"{takes}: {shown}")


text_field = texts(__file__)
DISTINCT = AfterValidator(lambda values: tuple(dict.fromkeys(values)))
"""A validator that removes duplicates from a list."""
Guid = Annotated[str, text_field("guid")]
Size = Annotated[str, text_field("size")]
Reference = Annotated[str, text_field("image")]
TagKey = Annotated[str, text_field("tag")]
TagValue = Annotated[str, Field(max_length=256, description="a string of at most 256 characters")]
# Azure accepts at most 50, and three are Slipway's.
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=47, description="at most 47 tags")]
Login = Literal["azurecli", "workloadidentity", "spn", "msi"]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class GpuNodes:
    """The settings for GPU pools that both Azure kinds share.

    Args:
        size: Size of each node.
        gpus_per_node: GPUs per node, if its size is not listed in clusters/azure/sizes.yaml.
        labels: Labels in addition to Slipway's.
        taints: Taints that repel other pods.
    """

    KNOWN: ClassVar[Mapping[str, int]]
    """The number of `nvidia.com/gpu` resources per node for each size in sizes.yaml."""
    OWN_LABEL: ClassVar[str]
    """The key of the label that Slipway sets only on these nodes."""

    size: Size
    gpus_per_node: Annotated[int, Field(ge=1, le=16)] | None = None
    min_nodes: int
    max_nodes: int
    labels: dict[NodeKey, LabelValue] = Field(default_factory=dict)
    taints: Annotated[tuple[Taint, ...], DISTINCT] = (Taint("sku", "gpu"),)

    @property
    def per_node(self) -> int:
        """The number of `nvidia.com/gpu` resources per node."""
        return self.KNOWN[self.size] if self.gpus_per_node is None else self.gpus_per_node

    @property
    def azure_taints(self) -> tuple[Taint, ...]:
        """The taints that Azure sets on the nodes, along with labels with the same keys."""
        return ()

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels on the nodes, including Slipway's own, which no other nodes have."""
        by_azure = {each.key: each.value for each in self.azure_taints}
        return {self.OWN_LABEL: "gpu", **by_azure, **self.labels}

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        """The taints on the nodes, including Azure's: if left out, these would appear as drift."""
        return (*self.taints, *self.azure_taints)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield problems with the size, number and taints of the GPU nodes."""
        size, listed, configured = self.size, self.KNOWN.get(self.size), self.gpus_per_node
        count = ("gpu", "gpusPerNode")
        if why := unfit(size):
            yield contradiction(("gpu", "size"), f"{quote(size)} has {why}")
        elif listed is None and configured is None:
            text = f"is missing; the number of GPUs in the size {quote(size)} is not known. "
            yield contradiction(count, f"{text}Known: {', '.join(self.KNOWN)}", "gpu.size")
        elif listed is not None and configured not in {None, listed}:
            text = f"{configured} is not allowed; a node of size {size} has {listed}"
            yield contradiction(count, text, "gpu.size")
        yield from bounds(("gpu",), self.min_nodes, self.max_nodes)
        if not any(taint.effect in {"NoSchedule", "NoExecute"} for taint in self.taints):
            yield contradiction(
                ("gpu", "taints"),
                "must include a taint with the effect NoSchedule or NoExecute: otherwise pods "
                "without GPUs would occupy expensive nodes",
            )
        if len({(each.key, each.effect) for each in self.taints}) < len(self.taints):
            text = "must not contain two taints with the same key and effect; remove one"
            yield contradiction(("gpu", "taints"), text)

    def pool(self, *, driver: str, device_plugin: bool) -> GpuPool:
        """Return the pool's properties for jobs; the arguments are fields of `GpuPool`."""
        return GpuPool(
            per_node=self.per_node,
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            labels=self.all_labels,
            taints=self.all_taints,
            device_plugin=device_plugin,
            driver=driver,
            cards=cards(self.size),
        )


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Images(image_registry.Images):
    """Prebuilt images that the nodes can pull, given by their full names."""

    trainer: Reference | None = None
    trainer_cuda: Reference | None = None
    training_operator: Reference | None = None
    tcp_wait: Reference | None = None
    mlflow: Reference | None = None
    postgres: Reference | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class AzureSettings(Consistent):
    """The settings that both Azure kinds share; each kind's class adds its own.

    Args:
        name: The cluster's name, from which other names are derived.
        tenant: The subscription's Entra tenant; by default, that of the current login. A login to a
            different tenant is refused.
        images: Prebuilt images that the nodes can pull.
        tags: Tags for all resources that support them, in addition to Slipway's.
        login: The kubelogin login method, used wherever the kubeconfig is used.
        admin_kubeconfig: Use the cluster's local administrator account, which is not in Entra.
    """

    name: Annotated[str, text_field("cluster")]
    subscription: Guid
    tenant: Guid | None = None
    location: Annotated[str, text_field("location")]
    resource_group: Annotated[str, text_field("group")] | None = None
    images: Images = Images()
    tags: Tags = Field(default_factory=dict)
    production: bool = False
    login: Login = "azurecli"
    admin_kubeconfig: bool = False

    def contradictions(self) -> Iterator[Contradiction]:
        yield from reserved(("name",), self.resource_name)

    @property
    def resource_name(self) -> str:
        """The cluster's name in Azure, with the prefix `slipway-` if Azure reserves the name."""
        return f"slipway-{self.name}" if is_reserved(self.name) else self.name

    @property
    def group(self) -> str:
        return f"slipway-{self.name}" if self.resource_group is None else self.resource_group

    @property
    def own_groups(self) -> tuple[str, ...]:
        """The resource groups that the stack creates."""
        return (self.group,)

    @property
    def lasting(self) -> Mapping[str, Any]:
        """The settings that an update can't change in place, as inputs for `AccessHandler`."""
        fixed = {"name": self.resource_name, "resourceGroup": self.group, "location": self.location}
        return {"refused": {"subscription": self.subscription}, "fixed": fixed}

    @property
    def metadata_host(self) -> str | None:
        """The host that lists a private Azure cloud's endpoints, or None for the public cloud."""
        return None
