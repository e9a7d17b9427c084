"""Stream replicas' logs and changes to objects from the API server."""

from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.watch import Watch

from core import kube
from jobs.api.lines import LONGEST, Line

LIMIT = (5, 20)
"""Time limits in seconds: to connect, and between two reads."""
_WATCH_SECONDS = 30


def log_lines(client: ApiClient, path: str, options: Mapping[str, str]) -> Iterator[list[Line]]:
    """Yield the log at `path` as it arrives, first an empty batch, until it ends or goes quiet.

    Raises:
        ApiException: the API server refused the request.
        urllib3.exceptions.HTTPError: there was no response, or the connection broke.
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
            # The kubelet's own messages have no timestamp, and are skipped.
            yield [line for line in parsed if line is not None]
            rest = last[:LONGEST]
    finally:
        # The connection can't be reused: unread data may still arrive on it.
        answer.close()


def watch(client: ApiClient, path: str, query: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """Yield all objects now and after each change, for half a minute; raises like `log_lines`.

    Call it again afterwards: the new listing shows anything that the watch may have missed.
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
        # A deleted object's last state may contain an exit code.
        yield list(objects.values())
        if change["type"] == "DELETED":
            del objects[uid]
            yield list(objects.values())
