"""Check a job for fields that contradict each other on any cluster."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from pydantic.alias_generators import to_camel

from core.problem import Contradiction, Path, choices, contradiction, quote
from jobs.model import names
from jobs.model.parts import HYPERPARAMETERS, MODULES, SecretKey, Volume
from jobs.model.program import roles, share

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob

_LAUNCHER = "slipway_trainer.launch"
NO_PROGRAM = "has nothing to run; set a `script`, a `build` or an `image`"
_PROGRAMS = ("script", "build", "image")
_OWN = (*_PROGRAMS, "command", "script_entry", "requirements", "working_dir", "keep")
_SIGNATURES = frozenset({"sig", "signature", "x-amz-signature", "x-goog-signature"})
_STORE = "leave it out, and set the storage client's own variable in `env`, from a Secret"
_PROXY = "set the address with `pulumi config set --secret proxy`, and refer to it: {config: proxy}"


def contradictions(job: TrainingJob) -> list[Contradiction]:
    """Return the contradictions between `job`'s fields."""
    rules = (
        _own_program if job.module is None else _catalogues_program,
        *(_elastic, _pairs, _inside, _drill, _env, _gpus, _volumes, _data, _require),
    )
    return [each for rule in rules for each in rule(job)]


def _catalogues_program(job: TrainingJob) -> Iterator[Contradiction]:
    text = f"{job.name} runs the catalogue's program; give your own job a different name"
    for name in _OWN:
        if getattr(job, name) is not None:
            yield _of(name, text)
    if job.max_time_to_accuracy is not None and job.goal is None:
        text = "requires a `goal`, such as accuracy=0.98; it limits the time to reach the goal"
        yield _of("max_time_to_accuracy", text, "goal")
    if job.elastic is None and MODULES[str(job.module)].is_elastic:
        yield _of("elastic", f"is missing; {job.name} requires it", "module")


def _own_program(job: TrainingJob) -> Iterator[Contradiction]:
    programs = [name for name in _PROGRAMS if getattr(job, name) is not None]
    for name in programs[1:]:
        text = f"can't be used with `{programs[0]}`; set exactly one of script, build and image"
        yield _of(name, text, programs[0])
    if not programs and job.command is None:
        yield Contradiction((), NO_PROGRAM, frozenset(_OWN))
    elif not programs:
        text = "is missing; `command` requires an `image`, a `build`, or a `script` with its files"
        yield _of("image", text, "command")
    if job.command is not None and job.script_entry is not None:
        text = "can't be used with `command`, which already determines what to start"
        yield _of("script_entry", text, "command")
    if job.working_dir is not None and job.script is None and job.working_dir[0] != "/":
        text = f"{quote(job.working_dir)} is relative, which requires a `script`; make it absolute"
        yield _of("working_dir", text, "script")
    if job.script_entry is not None and job.script is None:
        yield _of("script_entry", "requires a `script` that is a folder", "script")
    if any(getattr(job, name) is not None for name in _OWN):
        for name in HYPERPARAMETERS:
            if getattr(job, name) is not None:
                yield _of(name, "only the catalogue's programs accept it; use `args` instead")


def _elastic(job: TrainingJob) -> Iterator[Contradiction]:
    if job.elastic is None:
        return
    least, most = job.elastic.least(job.workers), job.elastic.most(job.workers)
    if job.workers < least:
        text = f"{least} is more than `workers`, which is {job.workers}"
        yield _of(("elastic", "minReplicas"), text, "workers")
    if job.workers > most:
        text = f"{most} is less than `workers`, which is {job.workers}"
        yield _of(("elastic", "maxReplicas"), text, "workers")
    if job.master is not None:
        yield _of("master", "an elastic job has only Workers; remove this key", "elastic")


def _pairs(job: TrainingJob) -> Iterator[Contradiction]:
    if job.retry_on is not None and job.retries == 0:
        yield _of("retry_on", "requires `retries`, but the job has none", "retries")
    if job.requirements is not None and job.script is None and job.module is None:
        text = "requires a `script`; a `build` or an `image` must contain its own packages"
        yield _of("requirements", text, "script")
    if job.outputs is not None:
        yield from _secret_in(job.outputs, ("outputs",))
    if job.checkpoint is not None and job.checkpoint.url is not None:
        yield from _secret_in(job.checkpoint.url, ("checkpoint", "url"))


def _inside(job: TrainingJob) -> Iterator[Contradiction]:
    command, ranks = job.command or (), sum(roles(job).values()) * job.processes_per_node
    names = ("on_failure", "debug", "drill")
    for name in (each for each in names if getattr(job, each) is not None):
        if job.elastic is not None and name != "drill":
            yield _of(name, "can't be used with `elastic`, which replaces failed ranks", "elastic")
        if command and job.script is None and _LAUNCHER not in command:
            yield _of(name, f"requires a `command` that runs {_LAUNCHER}", "command")
    if job.debug is not None and job.debug >= ranks:
        yield _of(
            "debug", f"{job.debug} is not one of the job's ranks", "workers", "processes_per_node"
        )
    if job.debug is not None and command and (job.script is not None or "--command" in command):
        yield _of("debug", "works only for a Python file, not with another `command`", "command")


def _drill(job: TrainingJob) -> Iterator[Contradiction]:
    if job.drill is None:
        return
    replicas = sum(roles(job).values())
    if job.drill.rank >= replicas * job.processes_per_node:
        text = f"{job.drill.rank} is not one of the job's ranks"
        yield _of(("drill", "rank"), text, "workers", "processes_per_node")
    if job.restart_policy == "ExitCode":
        text = "with ExitCode, a new pod replaces the failed one, and the drill would kill it, too"
        yield _of("restart_policy", f"{text}; use OnFailure", "drill")
    is_restarted = job.restart_policy == "OnFailure" and job.max_restarts > replicas
    is_retried = job.retries > 0 and "ownFailure" in (job.retry_on or ())
    if job.elastic is None and not is_retried and (job.hold or not is_restarted):
        text = (
            "requires a job that can recover: `elastic`, `retries` with `retryOn: [ownFailure]`, "
            f"or a `backoffLimit` of more than its {replicas} replicas, as all of them restart"
        )
        yield _of("drill", text, "elastic", "retries", "retry_on", "backoff_limit")


def _env(job: TrainingJob) -> Iterator[Contradiction]:
    threads = job.env.get(names.THREADS, "1")
    if not (isinstance(threads, str) and re.fullmatch(r"0*[1-9]\d*", threads)):
        shown = quote(threads) if isinstance(threads, str) else "a Secret's value"
        text = f"{shown} is not allowed; it must be a whole number of at least 1"
        yield _of(("env", names.THREADS), text)
    for name, value in job.env.items():
        if isinstance(value, SecretKey) and value.config is None:
            # Reported per key, so that a misspelled key beside it does not hide the problem.
            text = "is missing; set both `secret` and `key`, or only `config`"
            for field in ("secret", "key"):
                if getattr(value, field) is None:
                    yield contradiction(("env", name, field), text, f"env.{name}.config")
        elif isinstance(value, SecretKey):
            if (value.secret, value.key) != (None, None):
                yield _of(("env", name), "`config` can't be used with `secret` or `key`")
        elif name.lower().endswith("_proxy"):
            url = value if "://" in value else f"http://{value}"
            yield from _secret_in(url, ("env", name), _PROXY)


def _gpus(job: TrainingJob) -> Iterator[Contradiction]:
    has_some = any(share(job, role).gpus for role in roles(job))
    if job.min_gpu_utilization is not None and not has_some:
        text = "requires GPUs, but the job has none; set `gpus`, or `backend: nccl`"
        yield _of("min_gpu_utilization", text, "backend", "gpus", "master")
    if job.backend != "nccl":
        return
    need = f"nccl needs one GPU per process, and `processesPerNode` is {job.processes_per_node}"
    own = None if job.master is None else job.master.gpus
    for path, gpus in ((("gpus",), job.gpus), (("master", "gpus"), own)):
        if gpus is not None and gpus < job.processes_per_node:
            yield _of(path, f"{gpus} is too few: {need}", "backend", "processes_per_node")


def _volumes(job: TrainingJob) -> Iterator[Contradiction]:
    counted = Counter(volume.mount_path for volume in job.volumes.values())
    for name, volume in job.volumes.items():
        place = volume.mount_path
        taken = "is already used by another volume" if counted[place] > 1 else None
        if reason := _hidden(place, job) or taken:
            text = f'"{place}" {reason}; mount it elsewhere, such as /mnt/{name}'
            yield _of(("volumes", name, "mountPath"), text)
        yield from _volume_kind(name, volume)


def _hidden(place: str, job: TrainingJob) -> str | None:
    """Describe the path in the pod that a volume at `place` would hide; None if it hides none."""
    own = names.OWN_VOLUMES
    for path, what, is_needed in (
        *((path, f"the volume `{name}`, which every pod has", True) for name, path in own.items()),
        (names.PACKAGES, "slipway_trainer, which starts the program", job.image is None),
        (names.DATA, "the data sets that the program reads", job.module is not None),
        (names.INPUT_DIR, "the job's inputs", job.inputs),
        (names.OTHER_VOLUMES, "the volumes that its inputs come from", job.inputs),
        (names.CACHED_DATA, "the job's data", job.data is not None and job.data.volume is None),
    ):
        if is_needed and PurePosixPath(path).is_relative_to(place):
            return f"would hide {path}: {what}"
    return None


def _volume_kind(name: str, volume: Volume) -> Iterator[Contradiction]:
    kinds = ("claim", "size", "empty_dir", "host_path")
    present = [to_camel(kind) for kind in kinds if getattr(volume, kind) is not None]
    if len(present) != 1:
        listed = ", ".join(map(to_camel, kinds))
        text = f"has {' and '.join(present) or 'no kind'}; it must have exactly one of {listed}"
        yield _of(("volumes", name), text)
    elif volume.read_only and present[0] in {"size", "emptyDir"}:
        yield _of(
            ("volumes", name, "readOnly"),
            f"can't be used with `{present[0]}`, as the volume starts empty; remove this key",
        )
    elif volume.keep is not None and volume.size is None:
        text = f"can only be used with `size`, not with `{present[0]}`; remove this key"
        yield _of(("volumes", name, "keep"), text)


def _require(job: TrainingJob) -> Iterator[Contradiction]:
    for name, bounds in job.require.items():
        if bounds.min is None and bounds.max is None:
            yield _of(("require", name), "requires `min`, `max` or both")
        elif bounds.min is not None and bounds.max is not None and bounds.min > bounds.max:
            text = f"{bounds.min:g} is more than `max`, which is {bounds.max:g}"
            yield _of(("require", name, "min"), text)


def _secret_in(text: str, path: Path, remedy: str = _STORE) -> Iterator[Contradiction]:
    url = urlsplit(text)
    signed = any(name.lower() in _SIGNATURES for name, _ in parse_qsl(url.query, True))
    if url.password is not None or signed:
        what = "a signature" if signed else "a password"
        text = f"contains {what}, which would be in plain text in the stack's state; {remedy}"
        yield _of(path, text)


def _data(job: TrainingJob) -> Iterator[Contradiction]:
    data = job.data
    if data is None:
        return
    if data.url is None and data.volume is None:
        yield _of("data", "requires a `url` and `sha256`, or a `volume` that contains the data")
    if data.url is None and data.sha256 is not None:
        text = "requires a `url`; a volume's files are used as they are"
        yield _of(("data", "sha256"), text)
    if data.url is not None:
        yield from _secret_in(data.url, ("data", "url"))
        if data.sha256 is None:
            text = "is missing; it is needed to verify the file at `url` (sha256sum prints it)"
            yield _of(("data", "sha256"), text)
    if data.volume is None:
        return
    if (volume := job.volumes.get(data.volume)) is None:
        allowed = choices(data.volume, job.volumes)
        text = f"{quote(data.volume)} is not one of the job's `volumes`; {allowed}"
        yield _of(("data", "volume"), text, "volumes")
    elif volume.read_only and data.url is not None:
        text = f"{quote(data.volume)} is read-only, so nothing can be fetched into it"
        yield _of(("data", "volume"), text, "volumes")


def _of(place: str | Path, text: str, *others: str) -> Contradiction:
    """Return a contradiction between `place` (a field or path) and the other fields."""
    first, *rest = (place,) if isinstance(place, str) else place
    top = to_camel(str(first))
    return Contradiction((top, *rest), text, frozenset({top, *map(to_camel, others)}))
