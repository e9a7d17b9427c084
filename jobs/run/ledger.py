"""Wait for a run inside its cluster. A Job, the waiter, judges the run with the same code as `up`.

The ledger, a ConfigMap named `<job>-waiter`, contains the run's inputs and its outcome. It owns the
waiter, the waiter's service account, roles and code and, once the run has ended, the logs.
"""

import base64
import io
import json
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException

from core import kube
from core.context import Context
from core.kube import Request
from core.manifests import owned, rendered, troubles
from core.paths import CHECKOUT
from core.wait import NotYet, until
from jobs.api.client import JobApi, Object
from jobs.model.pytorchjob import Topology, run_of
from jobs.model.submission import Submission
from jobs.observe.wait import InterruptedWait
from jobs.records.archive import Archive
from jobs.result import RUNNING, RunResult
from jobs.run.submit import force_lost

_CODE = (
    *("core/*", "clusters/*", "jobs/**/*", "images/*", "images/build/*"),
    *("images/trainer/slipway/*", "images/trainer/slipway_trainer/agent/*"),
)
_PART, _MOST_PARTS = 700_000, 32
"""The number of bytes of the log archive in each ConfigMap, whose limit is 1 MiB including base64,
and the maximum number of ConfigMaps."""
_LOG_BYTES = 128 * 2**20  # of all logs before compression, which takes a few seconds
_POLL_SECONDS = 0.5
_GONE_SECONDS = 90.0
_START_SECONDS = 120.0


class Ledger(JobApi):
    """One run's ledger, which `up` creates and the waiter writes; also manages the waiter."""

    @property
    def own(self) -> str:
        return f"{self.name}-waiter"

    def read_values(self) -> dict[str, str] | None:
        """Return the ledger's values, keyed by name, or None if the ledger does not exist."""
        ledger = self._one("ConfigMap", self.own)
        return None if ledger is None else dict(ledger.get("data") or {})

    def note(self, **values: str) -> None:
        """Write values to the ledger, keyed by name; do nothing if it no longer exists."""
        self._unless_gone(Request("PATCH", self._of("ConfigMap", self.own), body={"data": values}))

    def resume(self, run: Mapping[str, Any], inputs: Mapping[str, Any], context: Context) -> bool:
        """Return whether a waiter was started for `run`, and pass it the job's new limits.

        An outdated waiter is replaced unless `inputs` contain none; the new one adopts the run.
        """
        values = self.read_values() or {}
        # Before its first status, the waiter may not even exist.
        if not values.keys() & {"status", "result"}:
            return False
        begun, is_same = json.loads(values["run"]), False
        with suppress(RuntimeError):  # such a job was valid when the run began
            before, now = (Submission.from_inputs(each).digest() for each in (begun, run))
            is_same = before == now
        is_outdated = is_same and "result" not in values and self.is_outdated(inputs)
        if is_outdated and "waiter" not in inputs:
            return is_same  # its code might reject the job as this version declares it
        if is_same and begun["job"] != run["job"]:
            # The pods come first: if this process is killed now, the next one repeats both steps.
            for pod in self._waiters():
                self.delete_pod(pod["metadata"]["name"])
            begun = {**begun, "job": run["job"]}
            self.note(run=json.dumps(begun))
        if is_outdated:
            for kind in ("Job", "Secret", "Role"):
                self.remove(context, kind)
            self.begin(begun, inputs["waiter"], inputs.get("hook"))
        return is_same

    def is_outdated(self, inputs: Mapping[str, Any]) -> bool:
        """Return whether the waiter began with other code, or another image or hook in `inputs`."""
        job, hook = self._one("Job", self.own), inputs.get("hook")
        with suppress(ApiException):  # not every account that may create a Secret may read it
            secret = self._one("Secret", self.own)
            hook = secret and json.loads(base64.b64decode(secret["data"]["hook"]))
        spec = job and job["spec"]["template"]["spec"]
        live = spec and (spec["containers"][0]["image"], spec["volumes"][0]["configMap"]["name"])
        own = (inputs.get("waiter", live and live[0]), self._modules)
        return (live, hook) != (own, inputs.get("hook"))

    @property
    def _modules(self) -> str:
        """The name of the ConfigMap with the waiter's code."""
        return f"{self.own}-code-{code()[0]}"

    def begin(self, run: Mapping[str, Any], image: str, hook: Mapping[str, Any] | None) -> None:
        """Create the ledger and its objects.

        `run` contains the inputs for `jobs.run.waiter`, and `image` the packages in waiter.txt. The
        `hook`, a `jobs.run.notify.Hook`, is kept in a Secret rather than in the ledger.
        """
        names = {"name": self.own, "job": self.name, "namespace": self.namespace, "image": image}
        objects = rendered(Path(__file__).with_name("waiter.yaml"), **names, code=self._modules)
        ledger, secret, account, *rights, modules, waiter = objects
        jobs_own = self._one("ServiceAccount", run["account"]) or {}
        account["imagePullSecrets"] = jobs_own.get("imagePullSecrets") or []
        modules["binaryData"] = {"code.zip": base64.b64encode(code()[1]).decode()}
        ledger["data"] = {"run": json.dumps(run)}
        secret["stringData"] = {"hook": json.dumps(hook)}
        owner = self._ensure(ledger)
        secrets = [] if hook is None else [secret]
        for each in (*secrets, account, *rights, modules, waiter):
            self._ensure(each, owner)

    def remove(self, context: Context, kind: str = "ConfigMap") -> None:
        """Delete the ledger and its objects, and wait until the waiter can submit no more runs.

        Another `kind`, such as the waiter's Job, is deleted without the ledger.
        """

        def look() -> None:
            if self._one(kind, self.own) is not None:
                force_lost(self, self._waiters())
                raise NotYet(f"{kind} {self.own} still exists")

        path, after_all = self._of(kind, self.own), {"propagationPolicy": "Foreground"}
        what, see = f"the removal of {self.name}'s waiter", f"describe {kind.lower()},pods"
        advice = f". To see why, run `kubectl --namespace {self.namespace} {see}`; then try again"
        if self._unless_gone(Request("DELETE", path, after_all)):
            until(look, _GONE_SECONDS, what, context, every=0.2, explain=lambda: advice)

    def follow(self, context: Context, logs: Archive, *, to_the_end: bool) -> RunResult:
        """Show the waiter's status until the run has ended, and fetch its logs.

        Unless `to_the_end` is set, return as soon as all of the run's ranks are running.

        Raises:
            InterruptedWait: Ctrl-C, or the waiter can't run or was removed; the run continues.
        """
        waited = well = 0.0
        while (values := self.read_values()) is not None:
            for text in json.loads(values.get("warnings", "[]")):
                context.warn(text)
            if (result := self.catch_up(logs, values)) is not None:
                return result
            context.status(values.get("status", "waiting for the waiter's pod to start"))
            if not to_the_end and (result := self._running(values)) is not None:
                return result
            pods = [(pod["status"].get("phase"), [*troubles(pod)]) for pod in self._waiters()]
            if "status" in values and (RUNNING, []) in pods:
                well = waited
            if waited - well > _START_SECONDS:
                found = [text for _, texts in pods for text in texts]
                text = "; ".join(found) or "its pod is not on a node yet"
                raise InterruptedWait(
                    f"the waiter for job {self.name} has not run for {_START_SECONDS:g} s: "
                    f"{text}. To find out why, run `kubectl --namespace {self.namespace} describe "
                    f"job {self.own}`, then `make up` again"
                )
            if context.cancelled.wait(_POLL_SECONDS):
                raise InterruptedWait(
                    f"stopped following job {self.name}, which continues with its waiter in the "
                    "cluster; the next `make up` shows its result, and `make down` stops it"
                )
            waited += _POLL_SECONDS
        raise InterruptedWait(
            f"job {self.name} was removed by `make down`, or by an `up` that does not declare it"
        )

    def _running(self, values: Mapping[str, str]) -> RunResult | None:
        """Return a result with the state Running once all ranks are running, or None until then."""
        job = self.get()
        if job is None:
            return None
        topology, id_ = Topology.of_object(job), run_of(job)
        pods = [each for each in self.pods() if run_of(each) == id_]
        running = [each for each in pods if (each.get("status") or {}).get("phase") == RUNNING]
        if len(running) < topology.replicas:
            return None
        succeeded = json.loads(values["run"]).get("succeeded")
        size = topology.world_size
        return RunResult(state=RUNNING, run_id=id_, world_size=size, last_succeeded=succeeded)

    def _waiters(self) -> list[Object]:
        own = {"labelSelector": f"batch.kubernetes.io/job-name={self.own}"}
        return self._items(self._pods, own)

    def end(self, result: RunResult, logs: Archive) -> None:
        """Write the run's result, after its logs and records."""
        count = max(1, len([*logs.directory.glob("*/*.log")]))
        for shift in range(24):
            packed = _packed(logs.directory, _LOG_BYTES // count >> shift)
            if len(packed) <= _PART * _MOST_PARTS:
                break
        parts = [packed[at : at + _PART] for at in range(0, len(packed), _PART)]
        digest = sha256(packed).hexdigest()[:8]
        ledger = self._one("ConfigMap", self.own)
        for number, part in enumerate(parts if ledger else ()):
            one = owned("ConfigMap", f"{self.own}-{digest}-{number}", self.namespace)
            self._ensure({**one, "binaryData": {"part": base64.b64encode(part).decode()}}, ledger)
        self.note(logs=f"{digest} {len(parts)}", result=json.dumps(result.as_map()))

    def catch_up(self, logs: Archive, values: Mapping[str, str] | None = None) -> RunResult | None:
        """Return the run's result and archive its logs, or return None while it is running."""
        values = values or self.read_values() or {}
        if "result" not in values:
            return None
        result = RunResult.from_map(json.loads(values["result"]))
        if result.run_id is not None and not logs.run(result.run_id).is_complete:
            digest, count = values["logs"].split()
            names = (f"{self.own}-{digest}-{number}" for number in range(int(count)))
            parts = [self._one("ConfigMap", each) for each in names]
            data = (each["binaryData"]["part"] for each in parts if each is not None)
            packed = b"".join(map(base64.b64decode, data))
            with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(packed)) as file:
                logs.directory.mkdir(0o700, parents=True, exist_ok=True)
                file.extractall(logs.directory)
                logs.keep({str(Path(name).parent) for name in file.namelist()})
        return result

    def _ensure(self, manifest: Object, owner: Object | None = None) -> Object:
        """Create an object unless it exists, and return it."""
        if owner is not None:
            own = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
            kind = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
            manifest["metadata"]["ownerReferences"] = [{**kind, **own}]
        creation = Request("POST", self._of(manifest["kind"]), body=manifest)
        created: Object | None = self._ask(creation, partial(kube.ask, settled=409))
        return created or self._one(manifest["kind"], manifest["metadata"]["name"]) or manifest

    def _one(self, kind: str, name: str) -> Object | None:
        return self._unless_gone(Request("GET", self._of(kind, name)))

    def _of(self, kind: str, name: str = "") -> str:
        groups = {"Job": "apis/batch/v1"}
        groups |= dict.fromkeys(("Role", "RoleBinding"), "apis/rbac.authorization.k8s.io/v1")
        path = f"/{groups.get(kind, 'api/v1')}/namespaces/{self.namespace}/{kind.lower()}s"
        return f"{path}/{name}" if name else path


@cache
def code() -> tuple[str, bytes]:
    """Return a hash of the modules that a waiter runs, and a zip file of them."""
    packed, digest = io.BytesIO(), sha256()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path in (path for pattern in _CODE for path in sorted(CHECKOUT.glob(pattern))):
            if path.suffix in {".py", ".yaml"}:
                file.write(path, path.relative_to(CHECKOUT))
                digest.update(f"{path.relative_to(CHECKOUT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:8], packed.getvalue()


def _packed(folder: Path, longest: int) -> bytes:
    """Return a zip file of a job's archive; logs over `longest` bytes are cut to their tails."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            content = path.read_bytes()
            if path.suffix == ".log" and len(content) > longest:
                note = f"# earlier lines were dropped: only {longest} bytes per log are kept\n"
                content = note.encode() + content[-longest:].partition(b"\n")[2]
            # Without the time, so that a waiter that starts again leaves the same objects.
            name = zipfile.ZipInfo(str(path.relative_to(folder)))
            file.writestr(name, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
