"""The table of tools: their accepted versions, and where each may come from.

For each, `resolve` tries in this order: PATH, the distribution's package, the project's own release
with its publisher's checksum, and a build from its Go module.
"""

from pathlib import Path

from clusters.cluster import Kind
from scripts.setup.tool_types import GO_MACHINES, GoModule, Range, Release, Tool

_KUBERNETES_VERSION = "k8s.io/component-base/version"
_PULUMI_VERSION = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"

PULUMI = GoModule(
    name="pulumi",
    packages={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    estimate="3 min, 1.6 GB",
    requires="github.com/pulumi/pulumi/pkg/v3",
    stamp={_PULUMI_VERSION: "{version}"},
    release=Release(
        # https://www.pulumi.com/docs/iac/download-install/versions/
        "https://get.pulumi.com/releases/sdk/pulumi-{version}-{system}-{machine}.tar.gz",
        "https://get.pulumi.com/releases/sdk/pulumi-{number}-checksums.txt",
        {
            name: f"pulumi/{name}"
            for name in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
        },
        {**GO_MACHINES, "x86_64": "x64"},
    ),
)
PYTHON_HOST = GoModule(
    name="pulumi-language-python",
    packages={
        "pulumi-language-python": (
            "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
        )
    },
    estimate="20 s, 0.1 GB",
    requires="github.com/pulumi/pulumi/sdk/v3",
    stamp={_PULUMI_VERSION: "{version}"},
    copies={"pulumi-language-python-exec": "python/cmd/pulumi-language-python-exec"},
)
KUBERNETES = GoModule(
    name="kubernetes",
    packages={
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-proxy",
            "kube-scheduler",
            "kubeadm",
            "kubectl",
            "kubelet",
        )
    },
    estimate="5 min, 2 GB",
    requires="k8s.io/kubernetes",
    stamp={
        f"{_KUBERNETES_VERSION}.gitVersion": "{version}",
        f"{_KUBERNETES_VERSION}.gitMajor": "{major}",
        f"{_KUBERNETES_VERSION}.gitMinor": "{minor}",
        f"{_KUBERNETES_VERSION}.gitTreeState": "clean",
    },
    # https://kubernetes.io/releases/download/#binaries
    release=Release("https://dl.k8s.io/release/{version}/bin/{system}/{machine}/{tool}"),
)
COREDNS = GoModule(
    name="coredns",
    packages={"coredns": "github.com/coredns/coredns"},
    estimate="90 s, 1 GB",
    requires="github.com/coredns/coredns",
    release=Release(
        # https://github.com/coredns/coredns/releases
        "https://github.com/coredns/coredns/releases/download/{version}/"
        "coredns_{number}_{system}_{machine}.tgz",
        members={"coredns": "coredns"},
    ),
)
TRAINING_OPERATOR = GoModule(
    name="training-operator",
    packages={
        "training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"
    },
    estimate="75 s, 0.6 GB",
    requires="github.com/kubeflow/training-operator",
    copies={"training-operator-manifests": "manifests"},
)
KIND = GoModule(
    name="kind",
    packages={"kind": "sigs.k8s.io/kind"},
    estimate="15 s, 0.1 GB",
    requires="sigs.k8s.io/kind",
    copies={
        "kind-node-files": "images/base/files",
        "kind-volumes": "pkg/build/nodeimage/const_storage.go",
    },
)
ETCD = GoModule(
    name="etcd",
    packages={"etcd-server": "go.etcd.io/etcd/server/v3"},
    estimate="80 s, 0.5 GB",
    requires="go.etcd.io/etcd/server/v3",
)
LOCAL_PATH_PROVISIONER = GoModule(
    name="local-path-provisioner",
    packages={"local-path-provisioner": "github.com/rancher/local-path-provisioner"},
    estimate="60 s, 0.5 GB",
    requires="github.com/rancher/local-path-provisioner",
)
PAUSE = GoModule(name="pause", packages={"pause": "."}, estimate="10 s")
TCP_WAIT = GoModule(name="tcp-wait", packages={"tcp-wait": "."}, estimate="10 s")

EVERYWHERE = (
    Tool("pulumi", Range("3.250", below="4"), ("version",), module=PULUMI),
    Tool("pulumi-language-python", beside="pulumi", module=PYTHON_HOST),
    Tool("pulumi-language-python-exec", beside="pulumi", module=PYTHON_HOST),
    Tool(
        "kubectl",
        Range("1.33", below="1.36"),  # one minor version either side of the API server's
        ("version", "--client=true"),
        module=KUBERNETES,
    ),
    Tool("training-operator-manifests", module=TRAINING_OPERATOR),
    # Put into the cluster as images, so that none of any kind fetches them from a registry.
    Tool("training-operator", module=TRAINING_OPERATOR),
    Tool("tcp-wait", module=TCP_WAIT),
)
"""What a stack needs whatever its cluster, besides pulumi-kubernetes' plugin."""

_KUBERNETES = Range("1.34", below="1.35")
_CONTAINERD = Range("1.6", below="3")
_OF_KINDS = (
    Tool("kube-apiserver", _KUBERNETES, module=KUBERNETES),
    Tool("kubeadm", _KUBERNETES, ("version", "--output=short"), module=KUBERNETES),
    Tool("kube-controller-manager", _KUBERNETES, module=KUBERNETES),
    Tool("kube-scheduler", _KUBERNETES, module=KUBERNETES),
    Tool("kubelet", _KUBERNETES, module=KUBERNETES),
    Tool("kube-proxy", _KUBERNETES, module=KUBERNETES),
    Tool("coredns", Range("1.11", below="2"), ("-version",), module=COREDNS),
    Tool("pause", module=PAUSE),
    Tool("etcd", Range("3.4", below="4"), package="etcd-server"),
    # What kubeadm configures: Debian's etcd is older.
    Tool("etcd-server", module=ETCD),
    Tool("local-path-provisioner", module=LOCAL_PATH_PROVISIONER),
    Tool("kind-node-files", module=KIND),
    Tool("kind-volumes", module=KIND),
    Tool(
        "podman-files",
        Range("4", below="6"),
        unpacked=("podman", "conmon", "netavark", "aardvark-dns", "libsubid4"),
        only_for_up=True,
        hint="Install docker or podman: https://kind.sigs.k8s.io/docs/user/quick-start",
    ),
    Tool("iptables", Range("1.8", below="2"), package="iptables"),
    Tool("containerd", _CONTAINERD, package="containerd"),
    Tool("ctr", _CONTAINERD, package="containerd"),
    Tool("containerd-shim-runc-v2", _CONTAINERD, ("-v",), package="containerd"),
    Tool("runc", Range("1.1", below="2"), package="runc"),
    Tool(
        "cni-plugins",
        Range("1.0", below="2"),
        package="containernetworking-plugins",
        directories=(Path("/usr/lib/cni"), Path("/usr/libexec/cni"), Path("/opt/cni/bin")),
        holds=("ptp", "host-local", "loopback", "portmap"),
    ),
    Tool("nft", Range("1.0.1", below="2"), package="nftables"),
    Tool("ip", Range("5.10"), ("-V",), package="iproute2"),
    Tool("buildah", Range("1.23", below="2"), package="buildah"),
    Tool("mmdebstrap", Range("1.0", below="2"), package="mmdebstrap"),
    Tool("nsenter", Range("2.36", below="3"), package="util-linux"),
    Tool("setpriv", Range("2.36", below="3"), package="util-linux"),
    Tool(
        "kind",
        Range("0.27", below="1"),
        ("version",),
        module=KIND,
        only_for_up=True,
        hint="Install it, or Go to build it with: https://kind.sigs.k8s.io/docs/user/quick-start",
    ),
    Tool(
        "minikube",
        Range("1.34", below="2"),
        ("version",),
        only_for_up=True,
        hint="Install it, and a driver for it: https://minikube.sigs.k8s.io/docs/start",
    ),
)
"""What only some kinds of cluster name as their `tools`."""


def tools_of(kind: Kind | None) -> tuple[Tool, ...]:
    """Return the tools for a kind of cluster; those of every kind where it is not known."""
    by_name = {tool.name: tool for tool in _OF_KINDS}
    named = () if kind is None else dict.fromkeys((*kind.tools, *kind.more_tools()))
    return (*EVERYWHERE, *(by_name[name] for name in named))
