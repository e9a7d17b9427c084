"""The cluster kind `embedded`: one node on this machine, without a container engine.

Read `lifecycle.py` first: starting the cluster is an ordered list of actions, one module each.
The node has its own network namespace, mount namespace, cgroup and two directories, so that it
does not conflict with anything else on the machine and can be removed completely.
"""

from clusters.cluster import Kind, OwnCluster
from core import tokens, toolchain
from core.handler import Lazy

_TOOLS = (
    "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
    "coredns", "pause", "etcd", "containerd", "ctr", "containerd-shim-runc-v2", "runc",
    "cni-plugins", "nft", "ip", "buildah", "mmdebstrap", "nsenter", "setpriv",
)  # fmt: skip
OWN = OwnCluster(
    type=tokens.EMBEDDED,
    handler=Lazy("clusters.embedded.embedded_cluster.EmbeddedHandler"),
    notes="clusters",
    remove=Lazy("clusters.embedded.lifecycle.remove"),
)
KIND = Kind(
    settings=Lazy("clusters.embedded.cluster.EmbeddedSettings"),
    capacity=Lazy("clusters.embedded.cluster.capacity"),
    kubernetes=lambda _settings: toolchain.tool("kube-apiserver").version,
    declare=Lazy("clusters.embedded.cluster.provision"),
    remains=Lazy("clusters.embedded.cluster.remains"),
    own=OWN,
    tools=_TOOLS,
    more_tools=lambda _settings: (),  # these include the tools that build images
    tool_of_setting={"internet": "slirp4netns"},
    runs_on_host=True,
)
