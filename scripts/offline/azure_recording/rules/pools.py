"""Node pools, declared by themselves or inside their cluster."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from core.values import UNKNOWN
from scripts.offline.azure_recording.rules.rule import Inputs, Rule, listed, within
from scripts.offline.azure_recording.shapes import Finding, joined

CLUSTER, POOL = "containerservice:ManagedCluster", "containerservice:AgentPool"
_LEARN = "https://learn.microsoft.com/azure/aks/"
_REST = (
    "https://learn.microsoft.com/rest/api/aks/agent-pools/create-or-update?view=rest-aks-2025-09-01"
)
_MOST_NODES = 1000
_LEAST_VCPUS = 4
_VCPUS = re.compile(r"Standard_[A-Z]+(\d+)")
_TAINT = re.compile(r"[^=:\s]+(=[^=:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)")
_RESERVED = re.compile(r"([^/]+\.)?kubernetes\.(azure\.com|io)/")


@dataclass(frozen=True)
class _Pool:
    """A pool, and where its properties are."""

    at: str
    values: Inputs
    name_at: str

    def get(self, *path: str) -> Any:
        return within(self.values, *path)

    def finding(self, key: str, reason: str) -> Finding:
        return Finding(joined(self.at, key), reason)

    @property
    def is_system(self) -> bool:
        return bool(self.get("mode") == "System")

    @property
    def is_spot(self) -> bool:
        return bool(self.get("scaleSetPriority") == "Spot")

    @property
    def may_be_spot(self) -> bool:
        """Whether it is one as far as that is known."""
        return self.is_spot or self.get("scaleSetPriority") is UNKNOWN

    @property
    def has_gpus(self) -> bool:
        """Sizes of the family N have GPUs, and no others do."""
        return str(self.get("vmSize")).startswith("Standard_N")


def _pools(inputs: Inputs) -> Iterator[_Pool]:
    for index, profile in enumerate(listed(inputs, "agentPoolProfiles")):
        yield _Pool(f"agentPoolProfiles[{index}]", profile, "name")
    if "agentPoolProfiles" not in inputs:
        yield _Pool("", inputs, "agentPoolName")


def _name(pool: _Pool) -> Iterator[Finding]:
    name = pool.get(pool.name_at)
    most = 6 if pool.get("osType") == "Windows" else 12
    if isinstance(name, str) and not re.fullmatch(rf"[a-z][a-z0-9]{{0,{most - 1}}}", name):
        yield pool.finding(
            pool.name_at,
            f"{name!r} is not allowed; it takes 1 to {most} lower-case letters and digits, "
            "a letter first",
        )


def _mode(pool: _Pool) -> Iterator[Finding]:
    if pool.get("mode") is None:
        yield pool.finding("mode", "is missing; it takes System or User")


def _system_nodes(pool: _Pool) -> Iterator[Finding]:
    for key in ("count", "minCount"):
        value = pool.get(key)
        if pool.is_system and isinstance(value, int) and value < 1:
            yield pool.finding(key, f"{value} is not allowed; a system pool has at least 1 node")


def _system_spot(pool: _Pool) -> Iterator[Finding]:
    if pool.is_system and pool.is_spot:
        yield pool.finding(
            "scaleSetPriority", "Spot is not allowed for a system pool; it takes Regular"
        )


def _system_os(pool: _Pool) -> Iterator[Finding]:
    if pool.is_system and pool.get("osType") == "Windows":
        yield pool.finding("osType", "Windows is not allowed for a system pool; it takes Linux")


def _system_size(pool: _Pool) -> Iterator[Finding]:
    size = pool.get("vmSize")
    if not pool.is_system or not isinstance(size, str):
        return
    vcpus = _VCPUS.match(size)
    if size.startswith("Standard_B"):
        yield pool.finding("vmSize", f"{size} is not allowed: a system pool takes no B series")
    elif vcpus is not None and int(vcpus.group(1)) < _LEAST_VCPUS:
        yield pool.finding(
            "vmSize", f"{size} has {vcpus.group(1)} vCPUs; a system pool takes 4 or more"
        )


def _system_pods(pool: _Pool) -> Iterator[Finding]:
    pods = pool.get("maxPods")
    if pool.is_system and isinstance(pods, int) and pods < 30:
        yield pool.finding("maxPods", f"{pods} is not allowed; a system pool takes 30 or more")


def _nodes(pool: _Pool) -> Iterator[Finding]:
    for key in ("count", "minCount", "maxCount"):
        value = pool.get(key)
        if isinstance(value, int) and not 0 <= value <= _MOST_NODES:
            yield pool.finding(key, f"{value} is not allowed; it takes 0 to {_MOST_NODES}")


def _autoscaling(pool: _Pool) -> Iterator[Finding]:
    bounds = {key: pool.get(key) for key in ("minCount", "maxCount")}
    scales = pool.get("enableAutoScaling")
    if scales is True:
        for key, value in bounds.items():
            if value is None:
                yield pool.finding(key, "is missing, and enableAutoScaling needs it")
        least, most, count = bounds["minCount"], bounds["maxCount"], pool.get("count")
        if isinstance(least, int) and isinstance(most, int):
            if least > most:
                yield pool.finding("minCount", f"{least} is above maxCount, {most}")
            elif isinstance(count, int) and not least <= count <= most:
                yield pool.finding("count", f"{count} is not within {least} and {most}")
    elif not scales:
        for key, value in bounds.items():
            if value is not None:
                yield pool.finding(key, "is allowed only with enableAutoScaling: true")


def _spot_only(pool: _Pool) -> Iterator[Finding]:
    for key in ("scaleSetEvictionPolicy", "spotMaxPrice"):
        if pool.get(key) is not None and not pool.may_be_spot:
            yield pool.finding(key, "is allowed only with scaleSetPriority: Spot")


def _spot_price(pool: _Pool) -> Iterator[Finding]:
    price = pool.get("spotMaxPrice")
    if not isinstance(price, int | float) or price == -1:
        return
    if price <= 0 or round(price, 5) != price:
        yield pool.finding(
            "spotMaxPrice",
            f"{price} is not allowed; it takes -1, or more than 0 with up to five decimal places",
        )


def _spot_type(pool: _Pool) -> Iterator[Finding]:
    if pool.is_spot and pool.get("type") not in {None, "VirtualMachineScaleSets"}:
        yield pool.finding("type", "a spot pool takes VirtualMachineScaleSets")


def _gpu_driver(pool: _Pool) -> Iterator[Finding]:
    size = pool.get("vmSize")
    for key in ("gpuProfile", "gpuInstanceProfile"):
        if pool.get(key) is not None and isinstance(size, str) and not pool.has_gpus:
            yield pool.finding(key, f"is allowed only for a size with GPUs, and {size} has none")


def _gpu_size(pool: _Pool) -> Iterator[Finding]:
    size = str(pool.get("vmSize"))
    if re.fullmatch(r"Standard_NV\w+_v4", size):
        yield pool.finding("vmSize", f"{size} has GPUs of AMD, which AKS doesn't support")


def _gpu_image(pool: _Pool) -> Iterator[Finding]:
    image, size = pool.get("osSKU"), str(pool.get("vmSize"))
    if image == "AzureLinux" and re.search(r"_[AH]100_|Standard_ND96", size):
        yield pool.finding("osSKU", f"AzureLinux is not there for {size}; it takes Ubuntu")


def _taints(pool: _Pool) -> Iterator[Finding]:
    for index, taint in enumerate(listed(pool.values, "nodeTaints")):
        if isinstance(taint, str) and not _TAINT.fullmatch(taint):
            yield pool.finding(
                f"nodeTaints[{index}]", f"{taint!r} is not allowed; such as sku=gpu:NoSchedule"
            )


def _labels(pool: _Pool) -> Iterator[Finding]:
    labels = pool.get("nodeLabels")
    for key in labels if isinstance(labels, dict) else ():
        own = pool.may_be_spot and key == "kubernetes.azure.com/scalesetpriority"
        if _RESERVED.match(key) and not own:
            yield pool.finding(f'nodeLabels["{key}"]', "begins with a prefix that AKS reserves")


def _disk(pool: _Pool) -> Iterator[Finding]:
    size = pool.get("osDiskSizeGB")
    if isinstance(size, int) and size != 0 and not 30 <= size <= 2048:
        yield pool.finding("osDiskSizeGB", f"{size} is not allowed; it takes 30 to 2048, or 0")


def _zones(pool: _Pool) -> Iterator[Finding]:
    for index, zone in enumerate(listed(pool.values, "availabilityZones")):
        if isinstance(zone, str) and zone not in {"1", "2", "3"}:
            yield pool.finding(
                f"availabilityZones[{index}]", f"{zone!r} is not allowed; it takes 1, 2 or 3"
            )


def _each(broken: Callable[[_Pool], Iterator[Finding]]) -> Callable[[Inputs], Iterator[Finding]]:
    return lambda inputs: (found for pool in _pools(inputs) for found in broken(pool))


RULES = tuple(
    Rule(name, (POOL, CLUSTER), source, _each(broken))
    for name, source, broken in (
        ("pool-name", f"{_LEARN}create-node-pools#limitations", _name),
        ("pool-mode", f"{_LEARN}use-system-pools#limitations", _mode),
        ("system-pool-empty", _REST, _system_nodes),
        ("system-pool-spot", f"{_LEARN}use-system-pools#system-and-user-node-pools", _system_spot),
        ("system-pool-os", f"{_LEARN}use-system-pools#system-and-user-node-pools", _system_os),
        ("system-pool-size", f"{_LEARN}use-system-pools#system-and-user-node-pools", _system_size),
        ("system-pool-pods", f"{_LEARN}use-system-pools#system-and-user-node-pools", _system_pods),
        ("pool-nodes", _REST, _nodes),
        ("pool-autoscaling", f"{_LEARN}cluster-autoscaler", _autoscaling),
        ("spot-only", _REST, _spot_only),
        ("spot-price", f"{_LEARN}spot-node-pool#limitations", _spot_price),
        ("spot-type", f"{_LEARN}spot-node-pool#limitations", _spot_type),
        ("gpu-driver-without-gpus", f"{_LEARN}use-nvidia-gpu", _gpu_driver),
        ("gpu-of-amd", f"{_LEARN}use-nvidia-gpu#supported-gpu-enabled-vms", _gpu_size),
        ("gpu-image", f"{_LEARN}use-nvidia-gpu#nvidia-device-plugin-installation", _gpu_image),
        ("pool-taint", _REST, _taints),
        ("pool-label", f"{_LEARN}use-labels#reserved-prefixes", _labels),
        ("pool-disk", _REST, _disk),
        (
            "pool-zone",
            "https://learn.microsoft.com/azure/reliability/availability-zones-overview",
            _zones,
        ),
    )
)
