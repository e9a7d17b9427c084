"""The files that a stack keeps for its jobs: which jobs have some, and a pod that can read them.

The pod is short-lived. It has the job's volumes, environment and service account, but no GPU, and
exits after a day.
"""

import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Silence
from core.kube import REQUEST_ERRORS, Request
from core.manifests import read, troubles
from core.wait import NotYet, until
from jobs.model.job import TrainingJob
from jobs.model.manifest import OF_THE_PROGRAM, manifest
from jobs.model.names import CONTAINER
from jobs.model.places import VOLUME_URL
from jobs.model.pytorchjob import templates
from jobs.model.submission import Submission
from jobs.records import archive
from jobs.records.archive import Archive
from jobs.records.history import History
from scripts.cli.kubeconfig import kubectl
from scripts.cli.state import JobState, StackState

_LABEL = "slipway.dev/fetch"  # on the pod: the job whose files it reads


class FetchError(Exception):
    """The files in the cluster can't be read; the message gives the reason."""


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


def reader_pod(job: JobState, image: str) -> dict[str, Any]:
    """Return the manifest of a pod that can read a job's files; `image` has slipway_trainer."""
    try:
        # Rank 0's template, since it mounts the volume that contains the files.
        submission = Submission.from_inputs(job.inputs)
        template = next(iter(templates(manifest(submission)).values()))
    except RuntimeError as error:
        raise FetchError(f"the job's declaration is no longer valid: {error}") from error
    pod = dict(template["spec"])
    # Drop the node selector: it could make the autoscaler add a GPU node.
    for name in ("initContainers", "nodeSelector", "priorityClassName"):
        pod.pop(name, None)
    (container,) = (each for each in pod["containers"] if each["name"] == CONTAINER)
    container.pop("args", None)
    volumes = [
        each for each in pod["volumes"] if each["name"] == "tmp" or "persistentVolumeClaim" in each
    ]
    needed = {each["name"] for each in volumes}
    mounts = [each for each in container["volumeMounts"] if each["name"] in needed]
    env = [each for each in container["env"] if each["name"] not in OF_THE_PROGRAM]
    own = read(Path(__file__).with_name("reader_pod.yaml"))
    own["metadata"] |= {
        "name": f"fetch-{job.name}-{secrets.token_hex(3)}",
        "namespace": job.namespace,
        # Clouds use the labels and annotations to assign the job's identity.
        "labels": {**template["metadata"]["labels"], _LABEL: job.name},
        "annotations": template["metadata"]["annotations"],
    }
    own["spec"] = {**pod, **own["spec"], "volumes": volumes}
    for each in own["spec"]["containers"]:
        each |= {**container, **each, "image": image, "volumeMounts": mounts, "env": env}
    return own


@contextmanager
def running_pod(api: ApiClient, pod: Mapping[str, Any]) -> Iterator[None]:
    """Create a pod, wait until it is running, and remove it after the `with` block."""
    metadata = pod["metadata"]
    pods = f"/api/v1/namespaces/{metadata['namespace']}/pods"
    own = Request("GET", f"{pods}/{metadata['name']}")
    try:
        kube.ask(api, Request("POST", pods, body=pod), limit=kube.ADMISSION)
    except REQUEST_ERRORS as error:
        raise FetchError(f"can't create the reader pod: {kube.api_message(error)}") from error
    try:
        until(lambda: _require_running(api, own), 180, "the pod", Silence(), every=0.3)
        yield
    except TimeoutError as error:
        raise FetchError(f"the reader pod did not start: {error}") from error
    finally:
        deletion = Request("DELETE", own.path, {"gracePeriodSeconds": "0"})
        with suppress(*REQUEST_ERRORS):  # the pod exits by itself
            kube.ask(api, deletion, limit=kube.ADMISSION)


def _require_running(api: ApiClient, request: Request) -> None:
    try:
        pod = kube.ask(api, request, limit=kube.ADMISSION)
    except ApiException as error:
        if kube.is_busy(error):
            raise NotYet(kube.api_message(error)) from error
        raise FetchError(f"the reader pod was lost: {kube.api_message(error)}") from error
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        raise FetchError(f"the reader pod failed: {status.get('message', '')}")
    if status.get("phase") != "Running":
        waits = [each.get("message", "") for each in status.get("conditions") or ()]
        raise NotYet("; ".join([*filter(None, waits), *troubles(pod)]) or "it has not started yet")


def run_in_pod(
    kubeconfig: str, pod: Mapping[str, Any], command: Sequence[str], to: IO[bytes]
) -> None:
    """Run a command in a pod and write its output to a file; raise `FetchError` if it fails."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    with kubectl(kubeconfig) as program:
        line = [*program, "exec", "--namespace", namespace, name, "--", *command]
        finished = subprocess.run(
            line, stdin=subprocess.DEVNULL, stdout=to, stderr=subprocess.PIPE, check=False
        )
    if finished.returncode != 0:
        lines = finished.stderr.decode(errors="replace").strip().splitlines()
        # kubectl's last line only reports the exit code.
        own = [line for line in lines if not line.startswith("command terminated with exit code")]
        raise FetchError(f"the files can't be read: {''.join((own or lines)[-1:])}")
