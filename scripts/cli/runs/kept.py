"""Which jobs have files that the stack keeps, also jobs that it no longer has."""

from collections.abc import Mapping
from typing import Any

from rich.filesize import decimal

from core import tokens
from jobs.model.job import TrainingJob
from jobs.model.places import VOLUME_URL
from jobs.model.submission import Submission
from jobs.records import archive
from jobs.records.archive import Archive
from jobs.records.history import History
from scripts.cli.backend import rows
from scripts.cli.state import JobState, StackState


def gone(stack: str, state: StackState) -> dict[str, JobState]:
    """Return jobs that were renamed or removed, with the last run that this machine remembers.

    Their files are where the stack keeps files, and any image with slipway_trainer reads them.
    """
    others = [dict(each.inputs) for each in state.jobs.values()]
    image = state.trainer or next((each["image"] for each in others), "")
    place = next((each["place"] for each in others if "place" in each), VOLUME_URL)
    found = {}
    for folder in sorted({file.parent for file in archive.of_stack(stack).glob("*/*.json")}):
        ended = [each for each in History(Archive(folder)).records() if each.result is not None]
        if ended and folder.name not in state.jobs and state.namespace is not None:
            own = TrainingJob(name=folder.name, image="none", command=("none",))
            submission = Submission(job=own, image=image, namespace=state.namespace, place=place)
            found[folder.name] = JobState(folder.name, submission.inputs(), ended[-1].run_result)
    return found


def with_files(stack: str, state: StackState) -> dict[str, list[Mapping[str, Any]]]:
    """Return the files of each job's last run that go with the stack, by job; none without any."""
    found = {}
    for name, job in {**gone(stack, state), **state.jobs}.items():
        files = [] if job.result is None else [*job.result.files.values()]
        if own := [each for each in files if job.kept and str(each["url"]).startswith(job.kept)]:
            found[name] = own
    return found


def described(files: Mapping[str, list[Mapping[str, Any]]], export: Mapping[str, Any]) -> str:
    """Return what of a stack goes for good with it, such as "3 jobs' files, 2 MB"; else nothing."""
    count, size = len(files), sum(each.get("bytes", 0) for own in files.values() for each in own)
    whose = "1 job's" if count == 1 else f"{count} jobs'"
    what = f"{whose} files, {decimal(size)}" if count else ""
    tracked = any(each["type"] == tokens.TRACKING_READY for each in rows(export, "resources"))
    return "; ".join(filter(None, [what, "MLflow's runs" if tracked else ""]))
