"""Outputs that would be gone with their pod, or stay in it."""

from pathlib import PurePosixPath
from posixpath import normpath
from urllib.parse import urlsplit

from core.text import quote
from jobs.rules.rule import Finding, Findings, Rule, Surroundings
from jobs.spec import TrainingJob


def _not_kept(job: TrainingJob, _: Surroundings) -> Findings:
    url = job.outputs
    if url is None or urlsplit(url).scheme not in {"file", "local"}:
        return
    path = PurePosixPath(normpath(urlsplit(url).path))
    lasting = [
        volume.mount_path
        for volume in job.volumes.values()
        if volume.empty_dir is None and not volume.read_only
    ]
    if not any(path.is_relative_to(place) for place in lasting):
        have = f"there are {', '.join(lasting)}" if lasting else "there is none"
        yield Finding(
            ("outputs",),
            f"{quote(url)} lies in no volume that can be written and stays when the pod goes "
            f"({have})",
            "mount one there, or name a store such as abfs://container/folder",
        )


def _cut_short(job: TrainingJob, _: Surroundings) -> Findings:
    if job.outputs is not None and job.clean_pod_policy != "None" and job.replicas > 1:
        yield Finding(
            ("cleanPodPolicy",),
            f"{quote(job.clean_pod_policy)} removes the other pods once the first has succeeded, "
            "also one that is still copying its `outputs`",
            "leave it out where all their files count",
        )


RULES = (
    Rule("outputs-not-kept", "docs/files.md#outputs", _not_kept),
    Rule("outputs-cut-short", "docs/files.md#outputs", _cut_short, warns=True),
)
