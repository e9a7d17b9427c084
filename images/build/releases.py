"""What the trainer's images are made of, by the version of torch in them: releases.yaml."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.manifests import read

_FILE = read(Path(__file__).with_name("releases.yaml"))
STABLE = "trixie"
"""The suite of images without torch."""
PYTHONS: Mapping[str, str] = {suite: of["python"] for suite, of in _FILE["suites"].items()}
SNAPSHOTS = {suite: of.get("snapshot") for suite, of in _FILE["suites"].items()}
"""The state that is used of each suite that Debian still changes; None for another."""


@dataclass(frozen=True)
class Card:
    """A kind of GPU, as torch has to know it."""

    architecture: str
    """Its compute capability, 9.0 as sm_90."""
    cuda: int | None = None
    """The newest CUDA, by its first number, that its driver runs; None where any will do.
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"""

    def runs(self, kernel: str) -> bool:
        """Return whether it runs kernels for an architecture: those of its own first number."""
        made, own = (int(each.removeprefix("sm_")) for each in (kernel, self.architecture))
        return made // 10 == own // 10 and made <= own


@dataclass(frozen=True)
class Release:
    """A version of torch, such as 2.14, in images that are made from a suite of Debian's.

    `debian` are the versions of torch and torchvision that the suite has, for CPUs; `cuda` is that
    with which PyPI has it, for GPUs of these `architectures`. Each is empty where there is none.
    """

    torch: str
    suite: str
    debian: Mapping[str, str] = field(default_factory=dict)
    cuda: str = ""
    architectures: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        """The suite's Python, such as 3.14."""
        return PYTHONS[self.suite]

    def unfit(self, cards: Iterable[Card] | None) -> str | None:
        """Return why a job on these GPUs, or with None on none, can't have it; None if it can."""
        if cards is None:
            return None if self.debian else "is there for GPUs alone"
        if not self.cuda:
            return "is there for CPUs alone"
        for card in cards:
            if card.cuda is not None and card.cuda < int(self.cuda.partition(".")[0]):
                return f"comes with CUDA {self.cuda}, and the GPUs' driver runs CUDA {card.cuda}"
            if not any(map(card.runs, self.architectures)):
                return f"has no kernels for {card.architecture}, which the cluster's GPUs are"
        return None


RELEASES: Mapping[str, Release] = {
    torch: Release(torch, **{**of, "architectures": tuple(of.get("architectures", ()))})
    for torch, of in _FILE["torch"].items()
}
"""The newest first."""


def chosen(torch: str | None, *, gpus: bool, stack: str | None = None) -> Release:
    """Return the version that is asked for, else the stack's, else the default.

    The stack's is for jobs that can have it: one for GPUs alone changes no job that gets none.
    """
    fit = [*usable(() if gpus else None)]
    return RELEASES[torch] if torch else next((e for e in fit if e.torch == stack), fit[0])


def usable(cards: Iterable[Card] | None) -> Iterator[Release]:
    """Yield those that a job on these GPUs, or with None on none, can have; the default first."""
    return (each for each in RELEASES.values() if each.unfit(cards) is None)
