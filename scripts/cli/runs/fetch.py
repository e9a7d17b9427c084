"""`make fetch JOB=…`: copy the files of a job's last run out of the cluster and verify them."""

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
from rich.filesize import decimal

from core import kube, tokens
from jobs.observe.run_state import counted
from jobs.records import archive
from jobs.records.history import History
from jobs.result import RunResult
from scripts.cli.backend import rows
from scripts.cli.config import require_job
from scripts.cli.runs import kept
from scripts.cli.state import JobState, StackState, read_state
from scripts.cli.terminal import CommandError, echo
from slipway.checkpoint_store import sha256_of

LIST = "artifacts.json"  # lists all of a replica's files (`slipway_trainer.agent.artifacts`)
_LISTS = re.compile(rf"(replica-[^/]*/)?{re.escape(LIST)}")
_SEND = ("python3", "-m", "slipway_trainer.tar")
_SUCCEEDED, _ELSEWHERE = "succeeded", "Choose another directory: TO=DIRECTORY."
Files = Mapping[str, Mapping[str, Any]]  # as in a result, by path
Runs = Sequence[tuple[str, str]]  # a job, and "succeeded" or, for its last run, ""


@dataclass(frozen=True)
class Received:
    """The outcome of copying a run's files, each given by its path within the run's folder."""

    written: Sequence[str]
    present: Sequence[str]  # already existed
    unchecked: Sequence[str]  # written, but not verified: the run's image has no agent
    changed: Sequence[str]  # not written, as their sha256 differs from the run's
    missing: Sequence[str]
    bytes: int


def fetch(stack: str, job: str, to: str = "", run: str | None = None) -> int:
    """Copy the files of a job's last run to a directory and verify them; return 1 if it has none.

    The directory `to` defaults to outputs/<job>/<run id>, so that nothing is overwritten. If `run`
    is "succeeded", the last successful run is used. Raises `CommandError` if copying fails.
    """
    state = read_state(stack, secrets=True)
    declared, result = find(stack, state, job)
    expected, url = result.files, folder_of(declared, result)
    run_id = result.run_id or "(never started)"
    if run == _SUCCEEDED:
        if (place := declared.kept) is None:
            raise CommandError(
                f"RUN={_SUCCEEDED} works only for files that the stack keeps, not for {job}: with "
                "`outputs`, every run's folder stays at its destination (docs/files.md)."
            )
        if not result.succeeded:
            past = History(archive.of_job(stack, job)).records()
            well = [each.run_id for each in past if (each.result or {}).get("state") == "Succeeded"]
            # No run has the last name, so that the message says what is missing.
            run_id = result.last_succeeded or (well or [_SUCCEEDED])[-1]
            expected, url = {}, f"{place}/{run_id}"
    other = f" Or fetch the files from the last successful run: RUN={_SUCCEEDED}."
    nothing = (
        f"No files from {job}'s run {run_id} were kept. The job's program must write them to "
        "SLIPWAY_OUTPUT_DIR (docs/files.md), or the job's `keep` must list them "
        "(docs/start.md#keep-what-it-writes). If it does, its log says why they were not kept. "
        f"`make rerun JOB={job} STACK={stack}` runs the job again."
        f"{'' if result.succeeded else other}"
    )
    if url is None:
        raise CommandError(nothing)
    directory = Path(to or f"outputs/{job}/{run_id}")
    room = _require_place(directory)
    echo(f"Copying the files from {job}'s run {run_id} in {url}.")
    try:
        kubeconfig = str(state.kubeconfig)
        # Both images contain slipway_trainer.
        pod = kept.reader_pod(declared, state.trainer or declared.inputs["image"])
        # An unnamed file on the target disk, which needs space for the files anyway.
        with TemporaryFile(dir=room) as fetched:
            with kept.running_pod(kube.connect(kubeconfig), pod):
                kept.run_in_pod(kubeconfig, pod, [*_SEND, url], fetched)
            fetched.seek(0)
            received = receive(fetched, directory, expected)
    except (kept.FetchError, tarfile.ReadError, ConfigException) as error:
        if not expected and "there are no files" in str(error):  # as `slipway_trainer.tar` says
            echo(nothing)
            return 1
        raise CommandError(
            f"The files of {job} were not copied: {error}. Run `make up STACK={stack}` to repair "
            "the cluster and its images, then run this command again; if the files are lost, "
            f"`make rerun JOB={job} STACK={stack}` runs the job again."
        ) from error
    except OSError as error:
        raise CommandError(
            f"The files of {job} were not copied: {directory} can't be written to "
            f"({error.strerror}). {_ELSEWHERE}"
        ) from error
    _report(received, directory, job, stack)
    return 0


def _require_place(directory: Path) -> Path:
    """Return the directory, or the one to create it in; raise if nothing can be written there."""
    ancestor = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    if not ancestor.is_dir():
        raise CommandError(f"{ancestor} is a file, so nothing can be copied into it. {_ELSEWHERE}")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise CommandError(f"{ancestor} is not writable. {_ELSEWHERE}")
    return ancestor


def find(stack: str, state: StackState, job: str) -> tuple[JobState, RunResult]:
    """Return a job and its result, or raise if there is no such job, no cluster or no result."""
    past = kept.former_jobs(stack, state)
    more = f" Former jobs whose files are kept: {', '.join(past)}." if past else ""
    require_job(stack, job, state.jobs if job not in past else past, more)
    if state.kubeconfig is None:
        raise CommandError(f"Stack {stack} has no cluster to copy files from.")
    job_state = state.jobs.get(job) or past[job]
    if job_state.result is None:
        raise CommandError(f"Job {job} has no result yet; see `make results STACK={stack}`.")
    return job_state, job_state.result


def folder_of(job: JobState, result: RunResult) -> str | None:
    """Return the URL of the folder that contains a run's files, or None if there are none."""
    if (listed := result.files.get(LIST)) is not None:
        return str(listed["url"]).removesuffix(f"/{LIST}")
    # No files are listed if the image lacks slipway_trainer, or if the run ended while copying.
    place = job.declared.get("outputs") or job.kept
    is_listed = result.succeeded and not job.declared.keys() & {"image", "build"}
    if place is None or is_listed or result.run_id is None:
        return None
    return f"{place.rstrip('/')}/{result.run_id}"


def lost_with(stack: str, state: StackState, export: Mapping[str, Any]) -> tuple[Runs, str]:
    """Return the runs that may lose files with a stack, and a summary of all that is lost."""
    sizes = dict[tuple[str, str], int]()  # 0 if unknown
    for name, job in {**kept.former_jobs(stack, state), **state.jobs}.items():
        volumes = job.declared.get("volumes", {}).values()
        own = (f"file://{each['mountPath']}" for each in volumes if each.get("size"))
        lost = tuple(f"{each}/" for each in (job.kept, *own) if each is not None)
        if (result := job.result) is not None:
            if (folder_of(job, result) or "").startswith(lost):
                sizes[name, ""] = sum(each.get("bytes", 0) for each in result.files.values())
            if result.last_succeeded is not None and job.kept is not None:
                sizes[name, _SUCCEEDED] = 0
    size = decimal(sum(sizes.values())) + ("" if all(sizes.values()) else " or more")
    words = [f"the files of {counted(len(sizes), 'run')}, {size}"] if sizes else []
    if any(each["type"] == tokens.TRACKING_READY for each in rows(export, "resources")):
        words.append("MLflow's runs")
    return [*sizes], "; ".join(words)


def _report(result: Received, directory: Path, job: str, stack: str) -> None:
    """Print the outcome, or raise an error that names any changed or missing files."""
    count = len(result.written) + len(result.unchecked)
    present = f", {len(result.present)} already there" if result.present else ""
    echo(f"{directory}: {count} files, {result.bytes:,} bytes{present}.")
    if result.unchecked:
        names = ", ".join(map(_printable, result.unchecked))
        echo(f"Not verified, because the result of {job} contains no checksums for them: {names}.")
    wrong = [
        f"\n  {_printable(name)}: changed since the run, and not copied" for name in result.changed
    ]
    wrong += [f"\n  {_printable(name)}: missing" for name in result.missing]
    if wrong:
        raise CommandError(
            f"Some files have changed since the run of {job}, or are missing:{''.join(wrong)}\n"
            f"`make rerun JOB={job} STACK={stack}` runs the job again and writes new files."
        )
    if not result.unchecked:
        echo("All files match the sha256 checksums that the run recorded.")


def receive(fetched: IO[bytes], to: Path, listed_files: Files) -> Received:
    """Write a tar archive's files to `to`, except those whose checksums differ from the run's.

    Raises:
        CommandError: An existing file differs, or a name leads out of `to`. Nothing was written.
        tarfile.ReadError: The archive is incomplete.
    """
    expected = {name: str(each["sha256"]) for name, each in listed_files.items()}
    with tarfile.open(fileobj=fetched, mode="r:") as tar:
        # All members are regular files, so extractfile never returns None.
        files = {_inner(each): cast("BufferedReader", tar.extractfile(each)) for each in tar}
        sums = {name: file_digest(file, "sha256").hexdigest() for name, file in files.items()}
        for name in [each for each in files if _LISTS.fullmatch(each)]:
            if expected.setdefault(name, sums[name]) == sums[name]:
                expected |= _listed(files[name], name)
        right = [name for name in files if expected.get(name, sums[name]) == sums[name]]
        existing = [name for name in right if (to / name).exists()]
        yours = {name: sha256_of(to / name) if (to / name).is_file() else "" for name in existing}
        # A list from another run is not overwritten; this run's list has been read by now.
        others = [each for each in sorted(yours) if yours[each] != sums[each]]
        if others := [each for each in others if not _LISTS.fullmatch(each)]:
            listed = "".join(f"\n  {_printable(str(to / name))}" for name in others)
            raise CommandError(
                f"These existing files differ from the run's, so nothing was written:{listed}\n"
                "Move them elsewhere, or choose another directory: TO=DIRECTORY."
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
        raise CommandError(f"{member.name!r} is not a file in the run folder: nothing was written")
    return str(path)


def _listed(file: BufferedReader, name: str) -> dict[str, str]:
    """Return the sha256 of each file in a list, keyed by path, or {} if the list is invalid."""
    file.seek(0)
    folder = PurePosixPath(name).parent
    try:
        return {str(folder / each): entry["sha256"] for each, entry in json.load(file).items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _printable(name: str) -> str:
    """Return a name on one line, with control characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in name)


def _put(source: BufferedReader, path: Path) -> int:
    """Write a file, renaming it into place once it is complete, and return its size."""
    source.seek(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".slipway-{os.getpid()}.part")  # `name` may be of maximum length
    try:
        with part.open("wb") as file:
            shutil.copyfileobj(source, file)
        return part.rename(path).stat().st_size
    finally:
        part.unlink(missing_ok=True)
