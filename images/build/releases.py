"""The supported versions of torch, and the trainer image's components for each (releases.yaml)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.manifests import read

_FILE = read(Path(__file__).with_name("releases.yaml"))
STABLE = "trixie"
"""The suite for images without torch."""
PYTHONS: Mapping[str, str] = {suite: of["python"] for suite, of in _FILE["suites"].items()}
SNAPSHOTS = {suite: of.get("snapshot") for suite, of in _FILE["suites"].items()}
"""The snapshot for each suite that Debian still changes; None for other suites."""


@dataclass(frozen=True)
class Card:
    """A kind of GPU, with the properties that matter to torch."""

    architecture: str
    """The GPU's compute capability, such as sm_90 for 9.0."""
    cuda: int | None = None
    """The newest major version of CUDA that the GPU's driver supports; None if there is no limit.
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"""

    def runs(self, kernel: str) -> bool:
        """Return whether the GPU runs kernels built for the architecture `kernel`.

        `kernel` must have the same major version as the GPU's own architecture, and not be newer.
        """
        target, own = (int(each.removeprefix("sm_")) for each in (kernel, self.architecture))
        return target // 10 == own // 10 and target <= own


@dataclass(frozen=True)
class Release:
    """A version of torch, such as 2.14, in images based on a Debian suite.

    `debian` maps torch and torchvision to the suite's versions, for CPUs; `cuda` is the version
    that PyPI's torch is built with, for GPUs with these `architectures`. Each may be empty.
    """

    torch: str
    suite: str
    debian: Mapping[str, str] = field(default_factory=dict)
    cuda: str = ""
    architectures: Sequence[str] = ()

    @property
    def python(self) -> str:
        """The suite's Python, such as 3.14."""
        return PYTHONS[self.suite]

    def unfit(self, cards: Iterable[Card] | None) -> str | None:
        """Return why a job on these GPUs can't use this version, or None if it can.

        If `cards` is None, the job runs on CPUs.
        """
        if cards is None:
            return None if self.debian else "is available for GPUs only"
        if not self.cuda:
            return "is available for CPUs only"
        for card in cards:
            if card.cuda is not None and card.cuda < int(self.cuda.partition(".")[0]):
                return f"needs CUDA {self.cuda}, but the GPUs' driver supports only {card.cuda}"
            if not any(map(card.runs, self.architectures)):
                return f"contains no kernels for the cluster's GPUs ({card.architecture})"
        return None


RELEASES: Mapping[str, Release] = {
    torch: Release(torch, **of) for torch, of in _FILE["torch"].items()
}
"""All versions of torch, newest first."""


def chosen(torch: str | None, *, gpus: bool, stack: str | None = None) -> Release:
    """Return a job's version of torch: the requested one, or else the stack's, or the default.

    The stack's version applies only to jobs that can use it: jobs on CPUs ignore a version that is
    available for GPUs only.
    """
    fit = [*usable(() if gpus else None)]
    return RELEASES[torch] if torch else next((e for e in fit if e.torch == stack), fit[0])


def usable(cards: Iterable[Card] | None) -> Iterator[Release]:
    """Yield the versions for jobs on these GPUs, or on CPUs if `cards` is None; default first."""
    return (each for each in RELEASES.values() if each.unfit(cards) is None)
