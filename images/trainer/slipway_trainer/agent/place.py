"""A program's working directory, and the files that the program leaves in it.

A job's script files are read-only, so the program starts in a copy of their folder. The copy is
deep enough in /work that `../data` is writable, so relative paths work as on the user's disk.
SLIPWAY_WORKING_DIR selects another directory, relative to that copy.

SLIPWAY_KEEP is a JSON list of patterns: matching files that the program created or changed are
linked into SLIPWAY_OUTPUT_DIR, and copied along with it. /work is empty when a pod starts; other
new files in it are lost with the pod, so a warning lists them.
"""

import filecmp
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import escape, glob, has_magic
from itertools import islice, takewhile
from pathlib import Path

_ROOT = os.environ.get("SLIPWAY_ROOT", "")
"""The folder that stands in for a pod's root directory in a run without a cluster."""
WORK, SCRIPT = Path(f"{_ROOT}/work"), Path(f"{_ROOT}/opt/script")
_DEFAULT = ["outputs/**"]
"""Patterns for files to keep by default: the output folder of Hydra and others. Directly in /work,
this folder is SLIPWAY_OUTPUT_DIR itself."""
_NOT_NAMED = {"__pycache__", "data", "dataset", "datasets"}
"""Folders for cached or downloaded files. The warning about lost files omits them, as it omits
hidden folders."""
# Python 3.10, which `make local` supports, leaves out hidden files.
_HIDDEN = {"include_hidden": True} if sys.version_info >= (3, 11) else {}
_MOST_SEEN, _MOST_LEFT, _MOST_NAMED = 10_000, 10, 3


class Place:
    """A program's working directory; `outputs` is the directory for files to keep."""

    def __init__(self, outputs: Path) -> None:
        self.outputs, self.directory = outputs, Path.cwd()
        self._copy = WORK / "src" / os.environ.get("SLIPWAY_JOB", "job")
        self._patterns: list[str] | None = json.loads(os.environ.get("SLIPWAY_KEEP", "null"))
        self._begun, self._kept = time.time_ns(), dict[str, Path]()

    def enter(self, program: Sequence[str]) -> list[str]:
        """Change into the working directory; return `program` with its paths adapted to it."""
        if SCRIPT.is_dir():
            # The kubelet's ..data duplicates the files.
            others = shutil.ignore_patterns("..*")
            shutil.copytree(SCRIPT, self._copy, False, others, _copied, dirs_exist_ok=True)
            moved = [each.replace(f"{SCRIPT}/", f"{self._copy}/", 1) for each in program[:2]]
            program = [*moved, *program[2:]]
            self.directory = Path(self._copy, os.environ.get("SLIPWAY_WORKING_DIR", ""))
            self.directory.mkdir(parents=True, exist_ok=True)
            os.chdir(self.directory)
        self.gather()
        return [*program]

    def gather(self) -> None:
        """Update the links in `outputs` to files to keep, including files from before a restart."""
        matches: dict[str, Path] = {}
        for pattern in _DEFAULT if self._patterns is None else self._patterns:
            # `**` also follows links to folders, whose files are kept only if a pattern names them.
            named = len([*takewhile(lambda each: not has_magic(each), Path(pattern).parts)])
            # Before Python 3.13, pathlib's `**` does not match files.
            for name in glob(pattern, root_dir=self.directory, recursive=True, **_HIDDEN):  # noqa: PTH207
                path = Path(os.path.normpath(self.directory / name))
                within = [each for each in Path(name).parents if len(each.parts) > named]
                with suppress(OSError):  # the program has just removed it
                    is_own = path.parent.resolve().is_relative_to(self.outputs.resolve())
                    is_linked = any((self.directory / each).is_symlink() for each in within)
                    if path.is_file() and not (is_own or is_linked) and self._is_changed(path):
                        target = os.path.normpath(f"/{name}").lstrip("/")
                        _link(path, self.outputs / target)
                        matches[target] = path
        for name in self._kept.keys() - matches.keys():
            (self.outputs / name).unlink(missing_ok=True)
        self._kept = matches

    def left(self) -> dict[str, int]:
        """Return the sizes in bytes of the newest files that will be lost, keyed by path."""
        files = []
        for path in islice(self._files(), _MOST_SEEN):
            with suppress(OSError):
                if path.is_file() and self._is_changed(path):
                    about, name = path.stat(), os.path.relpath(path, self.directory)
                    files.append((-about.st_mtime_ns, name, about.st_size))
        return {name: size for _, name, size in sorted(files)[:_MOST_LEFT]}

    def warning(self, left: dict[str, int]) -> str:
        """Return a warning about the files in `left`, with the setting that would keep them."""
        shown = [f"{name} ({size:,} bytes)" for name, size in [*left.items()][:_MOST_NAMED]]
        more = " and others" if len(left) > _MOST_NAMED else ""
        own = self._patterns or (_DEFAULT if self._kept else [])
        keep = json.dumps([*dict.fromkeys([*own, *map(_pattern, left)])], ensure_ascii=False)
        lost, again = "in a cluster, would be lost with the pod", ""
        if not _ROOT:
            lost = "lost with the pod"
            again = f", then run `make rerun JOB={os.environ.get('SLIPWAY_JOB', '…')}`"
        return (
            f"not kept, and {lost}: {', '.join(shown)}{more}. To keep such files, add "
            f"`keep: {keep}` to the job{again} (docs/start.md#keep-what-it-writes)"
        )

    def _files(self) -> Iterator[Path]:
        """Yield all files in `WORK` except hidden files, data sets, and kept or fetched files."""
        checkpoints = os.environ.get("SLIPWAY_CHECKPOINT_DIR", WORK / "inputs")
        others, kept = {self.outputs, WORK / "inputs", Path(checkpoints)}, {*self._kept.values()}
        # Outside a pod, nothing is lost.
        for place, folders, names in os.walk(WORK) if self.outputs.parent == WORK else ():
            here = Path(place)
            own = (each for each in folders if each[0] != "." and each not in _NOT_NAMED)
            folders[:] = [each for each in own if here / each not in others]
            yield from (here / each for each in names if each[0] != "." and here / each not in kept)

    def _is_changed(self, path: Path) -> bool:
        """Return whether the program created or changed a file."""
        if path.is_relative_to(self._copy):
            original = SCRIPT / path.relative_to(self._copy)
            return not original.is_file() or not filecmp.cmp(path, original, shallow=False)
        return path.is_relative_to(WORK) or path.stat().st_mtime_ns >= self._begun


def _copied(source: str, target: str) -> None:
    """Copy a file, unless a restarted container has its own, and make the copy writable."""
    if not Path(target).exists():
        shutil.copyfile(source, target)
        Path(target).chmod(0o755)  # files from a ConfigMap are read-only


def _link(path: Path, target: Path) -> None:
    """Hard-link a file to `target`, or copy it if `target` is on a different file system."""
    if target.exists() and filecmp.cmp(path, target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), target)
    except OSError:
        shutil.copy2(path, target)


def _pattern(name: str) -> str:
    """Return a pattern for the file `name` and others in its folder, or with its suffix."""
    *folders, last = Path(name).parts
    up = folders.count("..")
    suffix = escape(Path(last).suffix)
    own = f"*{suffix}" if suffix else escape(last)
    return "/".join([*folders[:up], *([escape(folders[up]), "**"] if folders[up:] else [own])])
