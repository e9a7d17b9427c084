"""The settings that both Azure kinds share. In a stack's YAML keys are camelCase."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from clusters import image_registry
from clusters.azure.facts import bounds, cards, is_reserved, reserved, unfit
from clusters.nodes import GpuPool, Taint
from core.fields import CONFIG, LabelValue, NodeKey, texts
from core.problem import Contradiction, contradiction, quote
from core.validation import Consistent


def parsed(parse: Callable[[str], object], takes: str) -> AfterValidator:
    """Return what takes a text that can be parsed, and writes it in the usual way."""

    def check(text: str) -> str:
        try:
            return str(parse(text))
        except ValueError:
            raise ValueError(takes) from None

    return AfterValidator(check)


def resource_id(kind: str, takes: str) -> Any:
    """Return what takes the ID of a resource of a type, in a group of a subscription."""
    provider, collection = kind.split("/", 1)
    names = f"{re.escape(provider)}/{collection.replace('/', '/[^/]+/')}/[^/]+"
    group = "/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/]+"
    shown = f"/subscriptions/…/providers/{provider}/{collection.replace('/', '/…/')}/…"
    return Field(pattern=f"(?i)^{group}/providers/{names}$", description=f"{takes}: {shown}")


text_field = texts(__file__)
DISTINCT = AfterValidator(lambda values: tuple(dict.fromkeys(values)))
"""Leaves out what is in a list before."""
Guid = Annotated[str, text_field("guid")]
Size = Annotated[str, text_field("size")]
Reference = Annotated[str, text_field("image")]
TagKey = Annotated[str, text_field("tag")]
TagValue = Annotated[str, Field(max_length=256, description="text of at most 256 characters")]
# Azure takes at most 50, and two are Slipway's.
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=48, description="at most 48 tags")]
Login = Literal["azurecli", "workloadidentity", "spn", "msi"]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class GpuNodes:
    """What the pools with GPUs of both kinds have in common.

    Args:
        size: Of each node.
        gpus_per_node: `nvidia.com/gpu` of a node whose size is not in clusters/azure/sizes.yaml.
        labels: Besides Slipway's own.
        taints: That keep other pods off.
    """

    KNOWN: ClassVar[Mapping[str, int]]
    """`nvidia.com/gpu` of a node, by the sizes in sizes.yaml."""
    OWN_LABEL: ClassVar[str]
    """The key of the label that Slipway gives to these nodes alone."""

    size: Size
    gpus_per_node: Annotated[int, Field(ge=1, le=16)] | None = None
    min_nodes: int
    max_nodes: int
    labels: dict[NodeKey, LabelValue] = Field(default_factory=dict)
    taints: Annotated[tuple[Taint, ...], DISTINCT] = (Taint("sku", "gpu"),)

    @property
    def per_node(self) -> int:
        """`nvidia.com/gpu` of one node."""
        return self.KNOWN[self.size] if self.gpus_per_node is None else self.gpus_per_node

    @property
    def given(self) -> tuple[Taint, ...]:
        """Taints that Azure gives to its nodes, beside labels with the same keys and values."""
        return ()

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels of its nodes: Slipway's own, which no other nodes have, and the rest."""
        given = {each.key: each.value for each in self.given}
        return {self.OWN_LABEL: "gpu", **given, **self.labels}

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        """The taints of its nodes; what Azure adds, too, because it would show as drift."""
        return (*self.taints, *self.given)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield what is wrong with the size, the bounds and the taints of nodes with GPUs."""
        size, known, given = self.size, self.KNOWN.get(self.size), self.gpus_per_node
        count = ("gpu", "gpusPerNode")
        if why := unfit(size):
            yield contradiction(("gpu", "size"), f"{quote(size)} has {why}")
        elif known is None and given is None:
            text = f"is missing; how many GPUs a node of size {quote(size)} has is not known. "
            yield contradiction(count, f"{text}Of these it is: {', '.join(self.KNOWN)}", "gpu.size")
        elif known is not None and given not in {None, known}:
            text = f"{given} is not allowed; a node of size {size} has {known}"
            yield contradiction(count, text, "gpu.size")
        yield from bounds(("gpu",), self.min_nodes, self.max_nodes)
        if not any(taint.effect in {"NoSchedule", "NoExecute"} for taint in self.taints):
            yield contradiction(
                ("gpu", "taints"),
                "need one with the effect NoSchedule or NoExecute: else pods without GPUs would "
                "hold nodes that are paid for",
            )
        if len({(each.key, each.effect) for each in self.taints}) < len(self.taints):
            text = (
                "has two with one key and effect, of which a node can have one; leave the other out"
            )
            yield contradiction(("gpu", "taints"), text)

    def pool(self, *, driver: str, device_plugin: bool) -> GpuPool:
        """Return the pool as jobs have to know it, and who installs driver and device plugin."""
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
    """Images that are already where the nodes can fetch them, by their full names."""

    trainer: Reference | None = None
    trainer_cuda: Reference | None = None
    training_operator: Reference | None = None
    tcp_wait: Reference | None = None
    mlflow: Reference | None = None
    postgres: Reference | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class AzureSettings(Consistent):
    """What the settings of both kinds have in common; the kinds' own classes explain the rest.

    Args:
        name: Of the cluster; everything else is named after it.
        tenant: Of Entra, that the subscription belongs to; another login is refused. That of the
            login unless set.
        images: Prebuilt images that the nodes may pull.
        tags: On everything that may have some, besides Slipway's own.
        login: How kubelogin logs in wherever the kubeconfig is used.
        admin_kubeconfig: Use the cluster's own administrator, who is not in Entra.
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
        """The name of the cluster in Azure: `slipway-` precedes a word that Azure reserves."""
        return f"slipway-{self.name}" if is_reserved(self.name) else self.name

    @property
    def group(self) -> str:
        return f"slipway-{self.name}" if self.resource_group is None else self.resource_group

    @property
    def own_groups(self) -> tuple[str, ...]:
        """The resource groups that the stack makes."""
        return (self.group,)

    @property
    def lasting(self) -> Mapping[str, Any]:
        """Settings that an update does not change, or not in place: inputs of `AccessHandler`."""
        return {}

    @property
    def metadata_host(self) -> str | None:
        """The host that has all other addresses of Azure; None for Azure's own."""
        return None
