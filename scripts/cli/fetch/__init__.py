"""Finds a job's last run in the stack's state, and has its files copied from the cluster."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from kubernetes.config import ConfigException

from core import kube
from jobs.result import RunResult
from scripts.cli import CommandError, echo
from scripts.cli.config import check, no_job
from scripts.cli.fetch import pod
from scripts.cli.fetch.files import LIST, Received, receive
from scripts.cli.state import JobState, StackState, read_state

_SEND = ("python3", "-m", "slipway_trainer.tar")
_SUCCEEDED = "succeeded"


def fetch(stack: str, job: str, to: str, run: str) -> int:
    """Copy the files of a job's last run, or of the last one that succeeded; see `fetch_files`."""
    check(stack)
    fetch_files(stack, job, to, succeeded=run == _SUCCEEDED)
    return 0


def fetch_files(stack: str, job: str, to: str = "", *, succeeded: bool = False) -> Path:
    """Copy the files of a job's last run into a directory, check them, and return that.

    By default that is outputs/<job>/<run id>, so that no run's files are in the way of another
    one's. With `succeeded` it is the last run that succeeded, though a later one did not.

    Raises:
        CommandError: the run left none, or not all of them could be had; with what to do.
    """
    state = read_state(stack, secrets=True)
    declared, result = find(stack, state, job)
    known, url = kept_files(declared, result)
    run_id = str(result.run_id)
    if succeeded:
        if (place := declared.kept) is None:
            raise CommandError(
                f"RUN={_SUCCEEDED} is for files that the stack keeps, and those of {job} are not: "
                "with `outputs` every run's folder stays at its destination (docs/files.md)."
            )
        known, url, run_id = {}, f"{place}/{_SUCCEEDED}", _SUCCEEDED
    if url is None:
        other = f" Or fetch those of the last run that succeeded: RUN={_SUCCEEDED}."
        raise CommandError(
            f"The last run of {job} left no files that were kept. Its program has to write them "
            f"into SLIPWAY_OUTPUT_DIR (docs/files.md); `make rerun JOB={job} STACK={stack}` trains "
            f"it again.{'' if result.succeeded else other}"
        )
    directory = Path(to or f"outputs/{job}/{run_id}")
    echo(f"Copying the files of {job}'s run {run_id} from {url}.")
    try:
        kubeconfig = str(state.kubeconfig)
        # Either has slipway_trainer in it.
        reader = pod.manifest(declared, state.trainer or declared.image)
        # Where the files come to be there is room for them; it has no name there.
        room = next(each for each in directory.absolute().parents if each.is_dir())
        with TemporaryFile(dir=room) as fetched:
            with pod.running(kube.connect(kubeconfig), reader):
                pod.output(kubeconfig, reader, [*_SEND, url], fetched)
            fetched.seek(0)
            found = receive(fetched, directory, known)
    except (pod.FetchError, tarfile.ReadError, ConfigException) as error:
        raise CommandError(
            f"The files of {job} were not copied: {error}. What to do: `make up STACK={stack}` "
            "repairs the cluster and its images, then run the same command again; files that are "
            f"gone for good come again with `make rerun JOB={job} STACK={stack}`."
        ) from error
    _report(found, directory, job, stack)
    return directory


def find(stack: str, state: StackState, job: str) -> tuple[JobState, RunResult]:
    """Return a job and its result, in a stack whose cluster is known; or raise what there is."""
    if job not in state.jobs:
        raise CommandError(no_job(stack, job, state.jobs))
    if state.kubeconfig is None:
        raise CommandError(f"Stack {stack} has no cluster, in which its jobs' files would be.")
    found = state.jobs[job]
    if found.result is None:
        raise CommandError(f"Job {job} has no result yet; `make results STACK={stack}` says more.")
    return found, found.result


def kept_files(
    job: JobState, result: RunResult
) -> tuple[Mapping[str, Mapping[str, Any]], str | None]:
    """Return the files that a job's result names, and the URL of its run's folder, None without.

    An image without slipway_trainer names none, nor does a run that was lost while it copied them;
    where they would be follows from its outputs.
    """
    known = result.files
    if LIST in known:
        return known, str(known[LIST]["url"]).removesuffix(f"/{LIST}")
    place = job.declared.get("outputs") or job.kept
    may_be_there = job.declared.keys() & {"image", "build", "outputsEvery"}
    if place is None or not may_be_there or result.run_id is None:
        return known, None
    return known, f"{place.rstrip('/')}/{result.run_id}"


def _report(found: Received, directory: Path, job: str, stack: str) -> None:
    """Print what became of the files; raise where some are changed or missing, with their names."""
    count = len(found.written) + len(found.unchecked)
    there = f", {len(found.present)} were there already" if found.present else ""
    echo(f"{directory}: {count} files with {found.bytes:,} bytes{there}.")
    if found.unchecked:
        echo(
            f"Not checked, because the result of {job} has no checksums of them: "
            f"{', '.join(found.unchecked)}."
        )
    if not found.changed and not found.missing:
        if not found.unchecked:
            echo("Each has the sha256 with which the run left it.")
        return
    changed = (f"\n  {name}: changed since the run, and not copied" for name in found.changed)
    missing = (f"\n  {name}: missing" for name in found.missing)
    raise CommandError(
        f"Not all files are those that the run of {job} left:{''.join([*changed, *missing])}\n"
        f"`make rerun JOB={job} STACK={stack}` trains it again, which leaves them anew."
    )
