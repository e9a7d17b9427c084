"""Jobs whose files the stack keeps, including jobs that are no longer in the stack."""

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


def former_jobs(stack: str, state: StackState) -> dict[str, JobState]:
    """Return the jobs that were removed from the stack or renamed, keyed by their former names.

    Only jobs with a finished run that is recorded on this machine are included, with its result.
    """
    # Their files are stored next to the other jobs'; any image with slipway_trainer can read them.
    others = [dict(each.inputs) for each in state.jobs.values()]
    image = state.trainer or next((each["image"] for each in others), "")
    place = next((each["place"] for each in others if "place" in each), VOLUME_URL)
    former = {}
    for folder in sorted({file.parent for file in archive.of_stack(stack).glob("*/*.json")}):
        ended = [each for each in History(Archive(folder)).records() if each.result is not None]
        if ended and folder.name not in state.jobs and state.namespace is not None:
            own = TrainingJob(name=folder.name, image="none", command=("none",))
            submission = Submission(job=own, image=image, namespace=state.namespace, place=place)
            former[folder.name] = JobState(folder.name, submission.inputs(), ended[-1].run_result)
    return former


def lost_with(stack: str, state: StackState, export: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the jobs whose files are removed with a stack, and a summary of all that is lost."""
    sizes = dict[str, int]()
    for name, job in {**former_jobs(stack, state), **state.jobs}.items():
        files = () if job.result is None else job.result.files.values()
        own = [each for each in files if job.kept and str(each["url"]).startswith(job.kept)]
        sizes |= {name: sum(each.get("bytes", 0) for each in own)} if own else {}
    whose = "1 job's" if len(sizes) == 1 else f"{len(sizes)} jobs'"
    words = [f"{whose} files, {decimal(sum(sizes.values()))}"] if sizes else []
    if any(each["type"] == tokens.TRACKING_READY for each in rows(export, "resources")):
        words.append("MLflow's runs")
    return [*sizes], "; ".join(words)
