"""What the API server sends while it happens: a replica's log, and changes of objects."""

from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.watch import Watch

from core import kube
from jobs.api.lines import LONGEST, Line

LIMIT = (5, 20)
"""Seconds to connect, and until the next byte."""
_WATCH_SECONDS = 30


def log_lines(client: ApiClient, path: str, options: Mapping[str, str]) -> Iterator[list[Line]]:
    """Yield the lines of the log at `path` as they come, first none, until it ends or falls silent.

    Raises:
        ApiException: the API server's refusal.
        urllib3.exceptions.HTTPError: no answer, or none any more.
    """
    request = kube.Request("GET", path, {**options, "timestamps": "true"})
    answer = kube.send(client, request, limit=(5, 30))
    try:
        yield []
        rest = bytearray()
        for block in answer.stream(decode_content=False):
            rest += block
            *lines, last = rest.split(b"\n") if b"\n" in block else [rest]
            parsed = (Line.parse(each[:LONGEST].decode(errors="replace")) for each in lines)
            # The kubelet's own messages have no time, and are left out.
            yield [line for line in parsed if line is not None]
            rest = last[:LONGEST]
    finally:
        # Not back to the pool: of a log that was left, more is on its way.
        answer.close()


def watch(client: ApiClient, path: str, query: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """Yield all objects now, then again at each change, for half a minute; raises as `log_lines`.

    Callers call again: what a watch may have missed, the next listing shows.
    """
    listing = kube.ask(client, kube.Request("GET", path, query), limit=LIMIT)
    objects = {item["metadata"]["uid"]: item for item in listing["items"]}
    yield list(objects.values())
    since = {
        "watch": "true",
        "resourceVersion": listing["metadata"]["resourceVersion"],
        "timeoutSeconds": str(_WATCH_SECONDS),
    }
    changed = kube.Request("GET", path, {**query, **since})
    stream = Watch().stream(  # type: ignore[no-untyped-call]
        lambda **_: kube.send(client, changed, limit=(5, 35)),
        timeout_seconds=_WATCH_SECONDS,
    )
    for change in stream:
        uid = change["raw_object"]["metadata"]["uid"]
        objects[uid] = change["raw_object"]
        # The last state of an object that is deleted counts, too: an exit code may be in it.
        yield list(objects.values())
        if change["type"] == "DELETED":
            del objects[uid]
            yield list(objects.values())
