"""Images that may be another one tomorrow, and those that no node gets."""

from collections.abc import Iterator

from core.text import quote
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
            "can't be repeated",
            "name a version, or a digest (@sha256:…)",
        )


def _out_of_reach(case: Case) -> Iterator[Finding]:
    image, reach = case.job.image, case.reach
    if image is not None and reach is not None and not reach.has(image):
        yield Finding(
            ("image",),
            f"{quote(image)} is in no registry that the cluster reaches",
            f"push it to {reach.host}, or say where it is there, by its digest, in "
            "slipway:cluster.registry.mirrors",
        )


UNPINNED = Rule(
    "unpinned-image",
    "https://kubernetes.io/docs/concepts/containers/images/#image-names",
    _unpinned,
)
OUT_OF_REACH = Rule("image-out-of-reach", "docs/azure-local.md#without-the-internet", _out_of_reach)
