"""Images that may be another one tomorrow."""

from collections.abc import Iterator

from infra.words import quote
from jobs.policy.rule import Case, Finding, Rule


def _unpinned(case: Case) -> Iterator[Finding]:
    image = case.job.image
    if image is None or "@" in image:
        return
    # A port is in front of a slash, a tag behind the last one.
    _, _, tag = image.rpartition("/")[2].partition(":")
    if tag in {"", "latest"}:
        what = "names no tag, which means `latest`" if tag == "" else "names the tag `latest`"
        yield Finding(
            ("image",),
            f"{quote(image)} {what}: that is another image each time somebody pushes one, so a run "
            "can't be repeated; name a version, or a digest (@sha256:…)",
        )


UNPINNED = Rule(
    "unpinned-image",
    "https://kubernetes.io/docs/concepts/containers/images/#image-names",
    _unpinned,
)
