"""Stream replicas' logs from the API server."""

from collections.abc import Iterator, Mapping

from kubernetes.client import ApiClient

from core import kube
from jobs.api.lines import LONGEST, Line

LIMIT = (5, 20)
"""Time limits in seconds: to connect, and between two reads."""


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
