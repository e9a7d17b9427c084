"""Outputs that would be gone with their pod."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from infra.words import quote
from jobs.policy.rule import Case, Finding, Rule


def _not_kept(case: Case) -> Iterator[Finding]:
    url = case.job.outputs
    if url is None or urlsplit(url).scheme not in {"file", "local"}:
        return
    path = PurePosixPath(urlsplit(url).path)
    lasting = [
        volume.mount_path
        for volume in case.job.volumes.values()
        if volume.empty_dir is None and not volume.read_only
    ]
    if not any(path.is_relative_to(place) for place in lasting):
        have = f"there are {', '.join(lasting)}" if lasting else "there is none"
        yield Finding(
            ("outputs",),
            f"{quote(url)} lies in no volume that can be written and stays when the pod goes "
            f"({have}); mount one there, or name a store such as abfs://container/folder",
        )


NOT_KEPT = Rule("outputs-not-kept", "docs/jobs.md#outputs", _not_kept)
