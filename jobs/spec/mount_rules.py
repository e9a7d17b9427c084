"""Where a job's volumes may be, and of which kinds they are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from core.problem import Contradiction, Path
from jobs.spec.names import DATA, INPUT_DIR, LENT, OWN_VOLUMES, PACKAGES, SCRIPT

if TYPE_CHECKING:
    from jobs.spec.job import TrainingJob
    from jobs.spec.parts import Volume

_SYSTEM = (
    *("/bin", "/dev", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr/bin", "/usr/lib"),
    *("/etc/hostname", "/etc/hosts", "/etc/resolv.conf"),
)
_CLOSED = ("/dev", "/proc", "/sys", PACKAGES, SCRIPT, INPUT_DIR, LENT)
"""Below these no runtime can make a directory to mount on, or what it hides is needed."""


def contradictions(job: TrainingJob) -> Iterator[Contradiction]:
    """Yield what is wrong with the volumes of `job`."""
    counted = Counter(volume.mount_path for volume in job.volumes.values())
    for name, volume in job.volumes.items():
        place = volume.mount_path
        reason = _hidden(place, job)
        if reason is None and counted[place] > 1:
            reason = "is taken by another volume"
        if reason is not None:
            text = f'"{place}" {reason}; mount it elsewhere, such as /mnt/{name}'
            yield _of((name, "mountPath"), text)
        yield from _kind(name, volume)


def _hidden(place: str, job: TrainingJob) -> str | None:
    """Return what a volume at `place` would take from the pod; None when nothing."""
    needed = {path: f"`{name}`, which every pod has" for name, path in OWN_VOLUMES.items()}
    needed |= dict.fromkeys(_SYSTEM, "a part of the system")
    if job.image is None:
        needed[PACKAGES] = "slipway_trainer, which starts the program"
    if job.module is not None:
        needed[DATA] = "the data sets that the program reads"
    if job.inputs:
        needed[INPUT_DIR] = "the job's inputs"
        needed[LENT] = "the volumes that its inputs come from"
    mounted = PurePosixPath(place)
    for path, what in needed.items():
        if place == path:
            return f"is taken by {what}"
        if PurePosixPath(path).is_relative_to(mounted):
            return f"would hide {path}: {what}"
        if path in _CLOSED and mounted.is_relative_to(path):
            return f"is inside of {path}, where nothing can be mounted: {what}"
    return None


def _kind(name: str, volume: Volume) -> Iterator[Contradiction]:
    kinds = ("claim", "size", "empty_dir", "host_path")
    given = [to_camel(kind) for kind in kinds if getattr(volume, kind) is not None]
    if len(given) != 1:
        listed = ", ".join(map(to_camel, kinds))
        text = f"has {' and '.join(given) or 'no kind'}; it has exactly one of {listed}"
        yield _of((name,), text)
    elif volume.read_only and given[0] in {"size", "emptyDir"}:
        yield _of((name, "readOnly"), f"`{given[0]}` begins empty: it must be written")
    elif volume.keep is not None and volume.size is None:
        yield _of((name, "keep"), f"goes with `size` alone; `{given[0]}` says itself what stays")


def _of(path: Path, text: str) -> Contradiction:
    return Contradiction(("volumes", *path), text, frozenset({"volumes"}))
