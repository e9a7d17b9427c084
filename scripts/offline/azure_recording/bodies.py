"""The shapes of what the SDK has no types for: AKS on Azure Local, through generic resources.

From the interface of 2024-01-01:
https://github.com/Azure/azure-rest-api-specs/tree/main/specification/hybridaks/resource-manager
"""

from collections.abc import Mapping
from typing import Any

from scripts.offline.azure_recording.shapes import Choice, ListOf, MapOf, Object, Scalar, Shape

ANOTHERS = frozenset({"extendedLocation.type"})
"""What the SDK says of a generic resource though it is the other service's to say."""
_TEXT, _WHOLE, _TRUTH = Scalar(str), Scalar(int), Scalar(bool)


def of(token: str, inputs: Mapping[str, Any]) -> Object | None:
    """Return the shape of `properties` of a generic resource; None where it is not known."""
    return _BODIES.get(str(inputs.get("resourceType"))) if is_generic(token) else None


def is_generic(token: str) -> bool:
    """Tell whether that is the type of what the SDK has no types for."""
    return token.partition(":")[2] == "resources:Resource"


def _object(*required: str, **properties: Shape) -> Object:
    return Object(lambda: {key: (each, key in required) for key, each in properties.items()})


_POOL: dict[str, Shape] = {
    "osType": Choice(("Linux", "Windows")),
    "osSKU": Choice(("CBLMariner", "Windows2019", "Windows2022")),
    "nodeLabels": MapOf(_TEXT),
    "nodeTaints": ListOf(_TEXT),
    "maxCount": _WHOLE,
    "minCount": _WHOLE,
    "enableAutoScaling": _TRUTH,
    "maxPods": _WHOLE,
    "count": _WHOLE,
    "vmSize": _TEXT,
    "kubernetesVersion": _TEXT,
}
_BODIES: Mapping[str, Object] = {
    "agentPools": _object(**_POOL),
    "provisionedClusterInstances": _object(
        linuxProfile=_object(ssh=_object(publicKeys=ListOf(_object(keyData=_TEXT)))),
        controlPlane=_object(
            count=_WHOLE, vmSize=_TEXT, controlPlaneEndpoint=_object(hostIP=_TEXT)
        ),
        kubernetesVersion=_TEXT,
        networkProfile=_object(
            networkPolicy=Choice(("calico",)),
            podCidr=_TEXT,
            loadBalancerProfile=_object(count=_WHOLE),
        ),
        storageProfile=_object(
            smbCsiDriver=_object(enabled=_TRUTH), nfsCsiDriver=_object(enabled=_TRUTH)
        ),
        clusterVMAccessProfile=_object(authorizedIPRanges=_TEXT),
        agentPoolProfiles=ListOf(_object(name=_TEXT, **_POOL)),
        cloudProviderProfile=_object(infraNetworkProfile=_object(vnetSubnetIds=ListOf(_TEXT))),
        licenseProfile=_object(azureHybridBenefit=Choice(("True", "False", "NotApplicable"))),
        autoScalerProfile=MapOf(_TEXT),
    ),
}
