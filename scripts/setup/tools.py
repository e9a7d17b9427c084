"""Every tool there is: what is new enough on PATH, which Debian package has it, how it is built.

`releases` has those that their projects release as programs.
"""

from dataclasses import dataclass
from pathlib import Path

from clusters.cluster import Kind
from scripts.setup import modules
from scripts.setup.modules import GoModule
from scripts.setup.versions import Range


@dataclass(frozen=True)
class Tool:
    """One tool and where it may come from.

    Args:
        name: As in `core.toolchain`, and the program's name unless it is a directory.
        accepts: Versions that will do; None where the program can't tell its own.
        version_command: Arguments that make it print its version.
        package: Debian's package of it.
        module: The Go module to build it from.
        directories: For a directory of programs: where distributions put it.
        holds: For a directory of programs: those that must be in it.
        beside: Take it from PATH only when it lies beside this other tool.
        only_for_up: A preview goes without it, so set-up says what is missing and goes on; `up`
            refuses before it makes anything.
        hint: What to do when it can't be had, where that isn't plain from the rest.
    """

    name: str
    accepts: Range | None = None
    version_command: tuple[str, ...] = ("--version",)
    package: str | None = None
    module: GoModule | None = None
    directories: tuple[Path, ...] = ()
    holds: tuple[str, ...] = ()
    beside: str | None = None
    only_for_up: bool = False
    hint: str = ""

    @property
    def stamp(self) -> str:
        """Changes when what this repository asks of the tool does: then it is looked up anew."""
        return f"{self.accepts} {'' if self.module is None else self.module.digest}".strip()


EVERYWHERE = (
    Tool("pulumi", Range("3.250", below="4"), ("version",), module=modules.PULUMI),
    Tool("pulumi-language-python", beside="pulumi", module=modules.PYTHON_HOST),
    Tool("pulumi-language-python-exec", beside="pulumi", module=modules.PYTHON_HOST),
    Tool(
        "kubectl",
        Range("1.33", below="1.36"),  # one minor version either side of the API server's
        ("version", "--client=true"),
        module=modules.KUBERNETES,
    ),
    Tool("training-operator-manifests", module=modules.TRAINING_OPERATOR),
    # Put into the cluster as images, so that none of any kind fetches them from a registry.
    Tool("training-operator", module=modules.TRAINING_OPERATOR),
    Tool("tcp-wait", module=modules.TCP_WAIT),
)
"""What a stack needs whatever its cluster, besides pulumi-kubernetes' plugin."""

_OF_KINDS = (
    *(
        Tool(name, Range("1.34", below="1.35"), module=modules.KUBERNETES)
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
        )
    ),
    Tool("coredns", Range("1.11", below="2"), ("-version",), module=modules.COREDNS),
    Tool("pause", module=modules.PAUSE),
    Tool("etcd", Range("3.4", below="4"), package="etcd-server"),
    Tool("containerd", Range("1.6", below="3"), package="containerd"),
    Tool("ctr", Range("1.6", below="3"), package="containerd"),
    Tool("containerd-shim-runc-v2", Range("1.6", below="3"), ("-v",), package="containerd"),
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
        module=modules.KIND,
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
    """The tools for a kind of cluster; those of every kind where it is not known."""
    by_name = {tool.name: tool for tool in _OF_KINDS}
    named = () if kind is None else kind.tools
    return (*EVERYWHERE, *(by_name[name] for name in named))
