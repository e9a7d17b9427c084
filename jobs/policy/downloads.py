"""Scripts in which every rank fetches the same data."""

import ast
from collections.abc import Iterator

from jobs.policy.rule import Case, Finding, Rule


def _in_every_rank(case: Case) -> Iterator[Finding]:
    job = case.job
    if job.script is None or job.world_size == 1:
        return
    places = [f"{path}:{line}" for path, text in case.files.items() for line in _downloads(text)]
    if places:
        yield Finding(
            ("script",),
            f"downloads data in each of its {job.world_size} ranks ({', '.join(places)}): they "
            "overwrite each other's files where they share a directory",
            "where the files are there already, as /data/mnist and /data/cifar10 in the trainer's "
            "image, nothing is fetched; otherwise let one rank do it, or put the data into a "
            "volume or an image",
        )


def _downloads(text: str) -> list[int]:
    """Return the lines of calls that say `download=True`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []  # It is for another Python, or the run will tell.
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "download"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
    )


IN_EVERY_RANK = Rule(
    "downloads-in-every-rank",
    "https://docs.pytorch.org/vision/0.21/generated/torchvision.datasets.CIFAR10.html",
    _in_every_rank,
    warns=True,
)
