"""The Go modules that tools are built from: `scripts/toolchain/<name>/`, pinned by go.sum.

The version is read from go.mod, so it stands in one place.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from core.paths import CHECKOUT

WRAPPERS = CHECKOUT / "scripts" / "toolchain"


@dataclass(frozen=True)
class GoModule:
    """A wrapper module and what comes out of it.

    Args:
        name: Its directory in `scripts/toolchain`.
        packages: What to build, by the tool's name; `.` is the wrapper itself.
        estimate: What a first build takes on two cores, downloads included.
        requires: The module whose version the tools have; None for sources of our own.
        stamp: Variables that the linker sets, with `{version}`, `{major}`, `{minor}` to fill in.
        copies: Files and directories of `requires` that are tools as they are, by the tool's name.
    """

    name: str
    packages: Mapping[str, str]
    estimate: str
    requires: str | None = None
    stamp: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return WRAPPERS / self.name

    @cached_property
    def digest(self) -> str:
        """Changes with anything that the built program depends on."""
        digest = hashlib.sha256(repr((self.packages, self.stamp, self.copies)).encode())
        for file in sorted(self.directory.iterdir()):
            digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()[:12]

    @cached_property
    def version(self) -> str:
        """What go.mod pins; for our own sources their digest, so that a change is a new version."""
        if self.requires is None:
            return self.digest[:8]
        pinned = self._find(rf"^(?:require)?\s+{re.escape(self.requires)} (v\S+)")
        if pinned is None:
            raise ValueError(f"{self.directory / 'go.mod'} does not require {self.requires}")
        return pinned

    @property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go that builds it: go.mod's `go` line."""
        pinned = self._find(r"^go (\S+)$")
        return tuple(int(part) for part in pinned.split(".")) if pinned else ()

    @property
    def ldflags(self) -> str:
        major, _, rest = self.version.lstrip("v").partition(".")
        values = {"version": self.version, "major": major, "minor": rest.partition(".")[0]}
        stamps = (f"-X {name}={value.format(**values)}" for name, value in self.stamp.items())
        return " ".join(["-s", "-w", *stamps])

    def _find(self, pattern: str) -> str | None:
        match = re.search(pattern, (self.directory / "go.mod").read_text(), re.MULTILINE)
        return None if match is None else match[1]


_KUBERNETES_VERSION = "k8s.io/component-base/version"
_PULUMI_VERSION = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"

PULUMI = GoModule(
    name="pulumi",
    packages={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    estimate="3 min, 1.6 GB",
    requires="github.com/pulumi/pulumi/pkg/v3",
    stamp={_PULUMI_VERSION: "{version}"},
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
)
COREDNS = GoModule(
    name="coredns",
    packages={"coredns": "github.com/coredns/coredns"},
    estimate="90 s, 1 GB",
    requires="github.com/coredns/coredns",
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
)
PAUSE = GoModule(name="pause", packages={"pause": "."}, estimate="10 s")
TCP_WAIT = GoModule(name="tcp-wait", packages={"tcp-wait": "."}, estimate="10 s")
