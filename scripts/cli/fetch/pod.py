"""A short-lived pod that reads what a run left where the run's own pods would: made, read, removed.

It has the job's volumes, environment and account, so it can open whatever place its files are in,
also after the job's pods are gone. It asks for little, for no GPU, and ends itself after an hour.
"""

from __future__ import annotations

import copy
import io
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from kubernetes.stream.ws_client import create_websocket, get_websocket_url
from websocket import ABNF, WebSocketException

from core import kube
from core.context import Silence
from core.kube import Request
from core.manifests import troubles
from core.wait import NotYet, until
from jobs.spec.kept import keeping
from jobs.spec.names import CONTAINER
from jobs.spec.pytorchjob import OF_THE_PROGRAM

LABEL = "slipway.dev/fetch"
"""On the pod: the job whose files it reads."""
_LIMIT_SECONDS = 3600
_START_SECONDS = 180
_SILENT_SECONDS = 120
_ANSWER_SECONDS = (5.0, 20.0)
_OUTPUT, _ERRORS, _STATUS = 1, 2, 3
"""Channels: https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apimachinery/
pkg/util/remotecommand/constants.go and .../kubelet/pkg/cri/streaming/remotecommand/websocket.go."""


class FetchError(Exception):
    """Why the files can't be read in the cluster."""


def manifest(job: str, declared: Mapping[str, Any], image: str) -> dict[str, Any]:
    """Return the pod that reads the files of a job, by the inputs of its run."""
    complete = keeping(declared["manifest"], declared.get("kept"))
    specs = complete["spec"]["pytorchReplicaSpecs"]
    template = specs.get("Master", specs.get("Worker"))["template"]
    pod = copy.deepcopy(template["spec"])
    # Not its node selector: a node with GPUs would be made for it where there is none.
    for name in ("initContainers", "nodeSelector", "priorityClassName"):
        pod.pop(name, None)
    (container,) = (each for each in pod["containers"] if each["name"] == CONTAINER)
    needed = {
        each["name"]
        for each in pod["volumes"]
        if "persistentVolumeClaim" in each or each["name"] == "tmp"
    }
    container |= {
        "name": "fetch",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", f"import time; time.sleep({_LIMIT_SECONDS})"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [each for each in container["volumeMounts"] if each["name"] in needed],
        "env": [each for each in container["env"] if each["name"] not in OF_THE_PROGRAM],
        "workingDir": "/tmp",  # noqa: S108 - in the pod
    }
    container.pop("args", None)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"fetch-{job}-{secrets.token_hex(3)}",
            "namespace": complete["metadata"]["namespace"],
            # With them a cloud gives it the job's identity.
            "labels": {**template["metadata"]["labels"], LABEL: job},
            "annotations": template["metadata"]["annotations"],
        },
        "spec": {
            **pod,
            "containers": [container],
            "volumes": [each for each in pod["volumes"] if each["name"] in needed],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _LIMIT_SECONDS,
            "terminationGracePeriodSeconds": 0,
        },
    }


@contextmanager
def running(api: ApiClient, pod: Mapping[str, Any]) -> Iterator[None]:
    """Make a pod, wait until it runs, and remove it in the end, whatever happens.

    Raises:
        FetchError: it is refused, or does not start.
    """
    metadata = pod["metadata"]
    pods = f"/api/v1/namespaces/{metadata['namespace']}/pods"
    own = Request("GET", f"{pods}/{metadata['name']}")
    try:
        kube.ask(api, Request("POST", pods, body=pod), limit=_ANSWER_SECONDS)
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        raise FetchError(f"no pod could be made to read them: {kube.api_message(error)}") from error
    try:
        until(lambda: _require_running(api, own), _START_SECONDS, "the pod", Silence(), every=0.3)
        yield
    except TimeoutError as error:
        raise FetchError(f"the pod that reads them does not start: {error}") from error
    finally:
        gone = Request("DELETE", own.path, {"gracePeriodSeconds": "0"})
        with suppress(ApiException, urllib3.exceptions.HTTPError):  # it ends itself in an hour
            kube.ask(api, gone, limit=_ANSWER_SECONDS)


def _require_running(api: ApiClient, request: Request) -> None:
    try:
        pod = kube.ask(api, request, limit=_ANSWER_SECONDS)
    except ApiException as error:
        raise FetchError(f"the pod that reads them is gone: {kube.api_message(error)}") from error
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        raise FetchError(f"the pod that reads them failed: {status.get('message', '')}")
    if status.get("phase") != "Running":
        waits = [each.get("message", "") for each in status.get("conditions") or ()]
        raise NotYet("; ".join([*filter(None, waits), *troubles(pod)]) or "it has not started yet")


class Output(io.RawIOBase):
    """What a command prints in a pod's container, read as it comes: one frame is held at a time.

    Kubernetes' own client collects all frames that are there, which may be a whole model.

    Raises:
        FetchError: the command failed, with its last words; or the connection did.
    """

    def __init__(self, api: ApiClient, pod: Mapping[str, Any], command: Sequence[str]) -> None:
        super().__init__()
        place = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        words = [("command", word) for word in command]
        _, url, headers, *_ = api.param_serialize(
            "GET",
            f"{place}/exec",
            query_params=[*words, ("stdout", "true"), ("stderr", "true")],
            header_params={},
            auth_settings=["BearerToken"],
        )
        try:
            self._socket: Any = create_websocket(  # type: ignore[no-untyped-call]
                api.configuration,
                get_websocket_url(url),  # type: ignore[no-untyped-call]
                headers,
            )
        except (WebSocketException, ApiException, OSError) as error:
            raise FetchError(f"no command can be run in the pod: {error}") from error
        self._socket.settimeout(_SILENT_SECONDS)
        self._rest, self._errors, self._is_over = b"", b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and not self._is_over:
            self._receive()
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._socket.close(timeout=1)
        super().close()

    def _receive(self) -> None:
        try:
            kind, frame = self._socket.recv_data_frame(control_frame=True)
        except (WebSocketException, OSError) as error:
            raise FetchError(f"the connection to the pod ended: {error}") from error
        if kind == ABNF.OPCODE_CLOSE:
            self._is_over = True
        elif kind in {ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT} and frame.data:
            channel, data = frame.data[0], frame.data[1:]
            if channel == _OUTPUT:
                self._rest = data
            elif channel == _ERRORS:
                self._errors = (self._errors + data)[-4000:]
            elif channel == _STATUS and b'"Success"' not in data:
                last = self._errors.decode(errors="replace").strip().splitlines()[-1:]
                raise FetchError(f"they can't be read: {''.join(last) or data.decode()}")
