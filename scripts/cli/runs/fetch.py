"""`make fetch JOB=…`: copies the files of a job's last run from the cluster, and checks each."""

import json
import os
import re
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any, cast

from kubernetes.config import ConfigException

from core import kube
from jobs.records import archive
from jobs.records.history import History
from jobs.result import RunResult
from scripts.cli.config import require_job
from scripts.cli.runs import kept, reader_pod
from scripts.cli.state import JobState, StackState, read_state
from scripts.cli.terminal import CommandError, echo
from slipway.checkpoint_store import sha256_of

LIST = "artifacts.json"  # lists all files of a replica (`slipway_trainer.agent.artifacts`)
_LISTS = re.compile(rf"(replica-[^/]*/)?{re.escape(LIST)}")
_SEND = ("python3", "-m", "slipway_trainer.tar")
_SUCCEEDED, _ELSEWHERE = "succeeded", "Name another directory: TO=DIRECTORY."
Files = Mapping[str, Mapping[str, Any]]  # as a result has them, by their paths


@dataclass(frozen=True)
class Received:
    """What became of a run's files, each by its path below the run's folder."""

    written: Sequence[str]
    present: Sequence[str]  # before
    unchecked: Sequence[str]  # written without a checksum: the run's image has no agent
    changed: Sequence[str]  # not what the run left, by their sha256, and not written
    missing: Sequence[str]
    bytes: int


def fetch(stack: str, job: str, to: str = "", run: str | None = None) -> int:
    """Copy the files of a job's last run into a directory, and check them; exits with 0.

    By default that is outputs/<job>/<run id>, so that none is overwritten. With `succeeded` as
    `run` it is the last one that succeeded. It raises `CommandError` where not all can be had.
    """
    state = read_state(stack, secrets=True)
    declared, result = find(stack, state, job)
    known, url = result.files, folder_of(declared, result)
    run_id = str(result.run_id)
    if run == _SUCCEEDED:
        if (place := declared.kept) is None:
            raise CommandError(
                f"RUN={_SUCCEEDED} is for files that the stack keeps, and those of {job} are not: "
                "with `outputs` every run's folder stays at its destination (docs/files.md)."
            )
        if not result.succeeded:
            past = History(archive.of_job(stack, job)).records()
            well = [each.run_id for each in past if (each.result or {}).get("state") == "Succeeded"]
            # Where neither says which, there may be a note from before November 2026.
            run_id = result.last_succeeded or (well or [_SUCCEEDED])[-1]
            known, url = {}, f"{place}/{run_id}"
    if url is None:
        other = f" Or fetch those of the last run that succeeded: RUN={_SUCCEEDED}."
        raise CommandError(
            f"The last run of {job} left no files that were kept. Its program has to write them "
            "into SLIPWAY_OUTPUT_DIR (docs/files.md), or the job's `keep` to name them "
            "(docs/start.md#keep-what-it-writes); if so, its log says why they were not. "
            f"`make rerun JOB={job} STACK={stack}` trains it again."
            f"{'' if result.succeeded else other}"
        )
    directory = Path(to or f"outputs/{job}/{run_id}")
    _require_place(directory)
    echo(f"Copying the files of {job}'s run {run_id} from {url}.")
    try:
        kubeconfig = str(state.kubeconfig)
        # Either has slipway_trainer in it.
        pod = reader_pod.manifest(declared, state.trainer or declared.inputs["image"])
        # Where the files come to be there is room for them; it has no name there.
        room = next(each for each in directory.absolute().parents if each.is_dir())
        with TemporaryFile(dir=room) as fetched:
            with reader_pod.running(kube.connect(kubeconfig), pod):
                reader_pod.output(kubeconfig, pod, [*_SEND, url], fetched)
            fetched.seek(0)
            found = receive(fetched, directory, known)
    except (reader_pod.FetchError, tarfile.ReadError, ConfigException) as error:
        raise CommandError(
            f"The files of {job} were not copied: {error}. What to do: `make up STACK={stack}` "
            "repairs the cluster and its images, then run the same command again; files that are "
            f"gone for good come again with `make rerun JOB={job} STACK={stack}`."
        ) from error
    except OSError as error:
        raise CommandError(
            f"The files of {job} were not copied: {directory} can't be written to "
            f"({error.strerror}). {_ELSEWHERE}"
        ) from error
    _report(found, directory, job, stack)
    return 0


def _require_place(directory: Path) -> None:
    """Raise unless files can be put below a directory, which need not exist yet."""
    there = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    if not there.is_dir():
        raise CommandError(f"{there} is a file, so nothing can be copied into it. {_ELSEWHERE}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise CommandError(f"{there} may not be written to. {_ELSEWHERE}")


def find(stack: str, state: StackState, job: str) -> tuple[JobState, RunResult]:
    """Return a job and its result, in a stack whose cluster is known; or raise what there is."""
    past = kept.gone(stack, state)
    more = f" It had others, whose files it still has: {', '.join(past)}." if past else ""
    require_job(stack, job, state.jobs if job not in past else past, more)
    if state.kubeconfig is None:
        raise CommandError(f"Stack {stack} has no cluster, in which its jobs' files would be.")
    found = state.jobs.get(job) or past[job]
    if found.result is None:
        raise CommandError(f"Job {job} has no result yet; `make results STACK={stack}` says more.")
    return found, found.result


def folder_of(job: JobState, result: RunResult) -> str | None:
    """Return the URL of the folder with the files of a job's run; None where it left none."""
    if (listed := result.files.get(LIST)) is not None:
        return str(listed["url"]).removesuffix(f"/{LIST}")
    # An image without slipway_trainer names none, nor does a run that was lost as it copied them.
    place = job.declared.get("outputs") or job.kept
    may_be_there = job.declared.keys() & {"image", "build", "outputsEvery"}
    if place is None or not may_be_there or result.run_id is None:
        return None
    return f"{place.rstrip('/')}/{result.run_id}"


def _report(found: Received, directory: Path, job: str, stack: str) -> None:
    """Print what became of the files; raise where some are changed or missing, with their names."""
    count = len(found.written) + len(found.unchecked)
    there = f", {len(found.present)} were there already" if found.present else ""
    echo(f"{directory}: {count} files with {found.bytes:,} bytes{there}.")
    if found.unchecked:
        names = ", ".join(map(_printable, found.unchecked))
        echo(f"Not checked, because the result of {job} has no checksums of them: {names}.")
    wrong = [
        f"\n  {_printable(name)}: changed since the run, and not copied" for name in found.changed
    ]
    wrong += [f"\n  {_printable(name)}: missing" for name in found.missing]
    if wrong:
        raise CommandError(
            f"Not all files are those that the run of {job} left:{''.join(wrong)}\n"
            f"`make rerun JOB={job} STACK={stack}` trains it again, which leaves them anew."
        )
    if not found.unchecked:
        echo("Each has the sha256 with which the run left it.")


def receive(fetched: IO[bytes], to: Path, known: Files) -> Received:
    """Write the files of a tar, among them those that the run's result names, below `to`.

    Raises:
        CommandError: one of yours differs, or a name leads out of `to`; nothing was written.
        tarfile.ReadError: it is no complete tar.
    """
    expected = {name: str(each["sha256"]) for name, each in known.items()}
    with tarfile.open(fileobj=fetched, mode="r:") as tar:
        # Each is a plain file, so it has a content.
        files = {_inner(each): cast("BufferedReader", tar.extractfile(each)) for each in tar}
        sums = {name: file_digest(file, "sha256").hexdigest() for name, file in files.items()}
        for name in [each for each in files if _LISTS.fullmatch(each)]:
            if expected.setdefault(name, sums[name]) == sums[name]:
                expected |= _listed(files[name], name)
        right = [name for name in files if expected.get(name, sums[name]) == sums[name]]
        there = [name for name in right if (to / name).exists()]
        yours = {name: sha256_of(to / name) if (to / name).is_file() else "" for name in there}
        # Another run's list stays: what this run's says is checked by now.
        others = [each for each in sorted(yours) if yours[each] != sums[each]]
        if others := [each for each in others if not _LISTS.fullmatch(each)]:
            listed = "".join(f"\n  {_printable(str(to / name))}" for name in others)
            raise CommandError(
                f"These files are not those that the run left, and nothing was written:{listed}\n"
                "Move them away, or name another directory: TO=DIRECTORY."
            )
        new = [name for name in right if name not in yours]
        size = sum(_put(files[name], to / name) for name in new)
    return Received(
        written=[name for name in new if name in expected],
        present=list(yours),
        unchecked=[name for name in new if name not in expected],
        changed=[name for name in files if name not in right],
        missing=sorted(expected.keys() - files.keys()),
        bytes=size,
    )


def _inner(member: tarfile.TarInfo) -> str:
    path = PurePosixPath(member.name)
    is_odd = path.is_absolute() or ".." in path.parts or not path.parts or "\0" in member.name
    if is_odd or not member.isfile():
        raise CommandError(f"{member.name!r} is no file below the run's folder; nothing is written")
    return str(path)


def _listed(file: BufferedReader, name: str) -> dict[str, str]:
    """Return the sha256 of each file in the list of that name, by its path; {} of no such list."""
    file.seek(0)
    folder = PurePosixPath(name).parent
    try:
        return {str(folder / each): entry["sha256"] for each, entry in json.load(file).items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _printable(name: str) -> str:
    """Return a name on one line, with what no terminal should get as escapes."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in name)


def _put(source: BufferedReader, path: Path) -> int:
    """Write a file under its name once all of it is on the disk; return its size."""
    source.seek(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".slipway-{os.getpid()}.part")  # a name may be as long as any can be
    try:
        with part.open("wb") as file:
            shutil.copyfileobj(source, file)
        return part.rename(path).stat().st_size
    finally:
        part.unlink(missing_ok=True)
