"""Parse the stack's configuration, or raise one error with all problems.

No other module reads the configuration.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import pulumi

from clusters.image_registry import reached_alone
from clusters.kinds import CLUSTERS, ClusterSettings, read_cluster
from clusters.nodes import Capacity
from core.paths import project_dir
from core.problem import Problem, choices, located, quote
from core.validation import check
from images.build.releases import RELEASES
from infra import kept, written
from infra.cost import estimates, prices
from infra.cost.prices import PriceTable
from infra.kept import KeptOutputs
from infra.tracking import settings as trackers
from infra.tracking.settings import Tracking
from jobs.config import JobsConfig, lost_inputs, read
from jobs.model.fields import torches
from jobs.model.parts import SecretKey
from jobs.result import only_known
from jobs.rules.rule import Surroundings
from jobs.run.notify import Notify

T = TypeVar("T")
_TORCH, _EXEC, _NOTIFY = "slipway:torch", "slipway:exec", "slipway:notify"
_KEYS = ("cluster", "exec", "jobs", "notify", "outputs", "prices", "torch", "tracking")


@dataclass(frozen=True, kw_only=True)
class StackSettings(JobsConfig):
    """A stack's valid settings: its jobs and everything else."""

    cluster: ClusterSettings  # one of `clusters.kinds.CLUSTERS`, and its settings
    capacity: Capacity | None  # the cluster's capacity for jobs; None if not known beforehand
    prices: PriceTable | None  # the user's table, or None for the repository's
    outputs: KeptOutputs  # storage for files from jobs without `outputs`
    torch: str | None  # the PyTorch version for jobs that set none; None for the default
    tracking: Tracking | None  # the tracking server, or None if there is none
    exec: bool  # whether commands may be run in the jobs' pods
    hook: Mapping[str, Any] = field(repr=False)  # fields of a `Hook`, and its `stack`; may be empty
    secrets: Mapping[str, str] = field(repr=False)
    """The secrets that jobs refer to, such as {config: hfToken}, by key without `slipway:`."""


class SettingsError(pulumi.RunError):
    """One error for all problems in the configuration; the CLI prints it without a traceback."""

    def __init__(self, problems: list[Problem], source: str) -> None:
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(
            f"{count} in the configuration, so nothing was changed:{lines}\n"
            f"Correct {source} and run the command again."
        )


def load() -> StackSettings:
    """Read and parse the current stack's configuration; see `parse`."""
    config, stack = pulumi.runtime.get_config_env(), pulumi.get_stack()
    values = {key: _decoded(value) for key, value in config.items()}
    altered = [*written.altered(values, project_dir() / f"Pulumi.{stack}.yaml")]
    return parse(config, stack, pulumi.runtime.get_config_secret_keys_env(), altered)


def parse(
    config: Mapping[str, str],
    stack: str,
    secrets: Collection[str] = (),
    altered: Sequence[Problem] = (),
    *,
    remedy: str = "set it with `pulumi config set --stack {stack} --secret slipway:{name}`",
) -> StackSettings:
    """Return the settings in a stack's configuration, which maps full keys to strings or JSON.

    `secrets` lists the keys whose values are encrypted. `altered` lists the values that Pulumi
    does not read as they are written in the stack's file. `remedy` tells the user how to store the
    key `name` as a secret. Raises `SettingsError` with every problem in `config`.
    """
    problems: list[Problem] = []
    cluster, tracking = _cluster(config, stack, problems), None
    if trackers.KEY in config:
        tracking = _checked(config, trackers.KEY, Tracking, problems)
    torch = config.get(_TORCH)  # as text: JSON would read 2.10 as 2.1
    if torch is not None and torch not in RELEASES:
        text = f"{quote(torch)} is not allowed; it must be {torches(torch)}"
        problems.append(Problem(_TORCH, text))
        torch = None
    may_exec = _decoded(config.get(_EXEC, "false"))
    if not isinstance(may_exec, bool):
        problems.append(
            Problem(_EXEC, f"{quote(may_exec)} is not allowed; it must be true or false")
        )
    around = _surroundings(cluster, () if tracking is None else tracking.requests)
    around = replace(around, torch=torch)
    configured = read(_section(config, "slipway:jobs", problems), "slipway:jobs", around)
    problems += configured.problems
    outputs = _checked(config, kept.KEY, KeptOutputs, problems)
    if outputs is not None and outputs.why_not(around.capacity) is not None:
        problems += lost_inputs(configured.jobs, "slipway:jobs")
    # By the location that refers to a secret: the secret's key, without `slipway:`.
    named = {
        located("slipway:jobs", (job.name, "env", variable, "config")): value.config
        for job in configured.jobs
        for variable, value in job.env.items()
        if isinstance(value, SecretKey) and value.config is not None
    }
    notify = _checked(config, _NOTIFY, Notify, problems) if _NOTIFY in config else None
    hook = {} if notify is None else asdict(notify, dict_factory=only_known)
    hooked = {name: each["config"] for name, each in hook.items() if isinstance(each, dict)}
    named |= {located(_NOTIFY, (name, "config")): key for name, key in hooked.items()}
    problems += _misplaced(config, secrets, named.values())
    problems += _not_secret(named, config, secrets, remedy.replace("{stack}", stack))
    table = None
    if prices.KEY in config:
        table = _valid(prices.read(_decoded(config[prices.KEY])), problems)
    if not problems:
        problems += estimates.too_dear(configured.jobs, around.pools, table)
    places = {each.key for each in altered}
    problems = [*altered, *(each for each in problems if each.key not in places)]
    if problems or cluster is None or outputs is None:
        raise SettingsError(problems, f"Pulumi.{stack}.yaml")
    hook |= {name: config[f"slipway:{key}"] for name, key in hooked.items()}
    return StackSettings(
        **vars(configured),
        cluster=cluster,
        capacity=around.capacity,
        prices=table,
        outputs=outputs,
        torch=torch,
        tracking=tracking,
        exec=may_exec,
        hook=hook and {**hook, "stack": stack},
        secrets={name: config[f"slipway:{name}"] for name in named.values()},
    )


def _misplaced(
    config: Mapping[str, str], secrets: Collection[str], named: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem for each unknown key, and each Slipway setting that is encrypted.

    Secrets under other keys are allowed, even if no job uses them.
    """
    for key in config:
        namespace, _, name = key.partition(":")
        if namespace != "slipway":
            continue
        if name not in _KEYS:
            if key not in secrets and name not in named:
                yield Problem(key, f"there is no such key; {choices(name, _KEYS)}")
        elif key in secrets:
            yield Problem(
                key,
                "is a secret, which would be stored unencrypted with the job; store it under "
                "another key, and refer to that key in a job's `env`: TOKEN: {config: hfToken} "
                "(docs/own-job.md#environment)",
            )


def _not_secret(
    named: Mapping[str, str], config: Mapping[str, str], secrets: Collection[str], remedy: str
) -> Iterator[Problem]:
    """Yield a problem for each setting that refers to a key that is missing or is not a secret."""
    for place, name in named.items():
        key, advice = f"slipway:{name}", remedy.format(name=name)
        if name in _KEYS:
            text = f"{quote(name)} is one of Slipway's keys; store the secret under another key"
        elif key not in config:
            text = f"the configuration does not contain {quote(name)}; {advice}"
        elif key not in secrets:
            text = f"{quote(name)} is stored unencrypted in the configuration; {advice} again"
        else:
            continue
        yield Problem(place, text)


def _section(config: Mapping[str, str], key: str, problems: list[Problem]) -> dict[str, Any]:
    """Return the map at `key`; if the value is not a map, add a problem and return an empty map."""
    section = _decoded(config.get(key, "{}"))
    if not isinstance(section, dict):
        problems.append(Problem(key, f"{quote(section)} is not allowed; it must be a map"))
        return {}
    return section


def _checked(
    config: Mapping[str, str], key: str, shape: type[T], problems: list[Problem]
) -> T | None:
    return _valid(check(shape, _section(config, key, problems), key), problems)


def _valid(read: T | list[Problem], problems: list[Problem]) -> T | None:
    """Return `read`; if it is a list of problems, add them to `problems` and return None."""
    if isinstance(read, list):
        problems += read
        return None
    return read


def _decoded(text: str) -> Any:
    """Return a setting's value: decoded JSON, or the text if it is not JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _cluster(
    config: Mapping[str, str], stack: str, problems: list[Problem]
) -> ClusterSettings | None:
    key, template = "slipway:cluster", project_dir() / "stacks" / f"{stack}.yaml"
    if key not in config and template.exists():
        source = f"stacks/{template.name}"
        text = f"is missing; copy it from {source}"
        if not any(name.startswith("slipway:") for name in config):
            # Pulumi itself created the stack, without any settings.
            text = f"is missing; copy the settings from {source}: `cp {source} Pulumi.{stack}.yaml`"
        problems.append(Problem(key, text))
        return None
    section = _section(config, key, problems)
    return None if problems else _valid(read_cluster(section, key, stack), problems)


def _surroundings(
    cluster: ClusterSettings | None, others: Sequence[Mapping[str, str]]
) -> Surroundings:
    """Return the jobs' environment; `others` are the requests of the stack's other pods."""
    if cluster is None:
        return Surroundings()
    kind, options = CLUSTERS[cluster.kind], cluster.options
    gpus, capacity = kind.gpus(options), kind.capacity(options)
    if gpus is not None and getattr(getattr(options, "images", None), "trainer_cuda", None):
        gpus = replace(gpus, cards=())  # the user's image may contain kernels for any GPU
    return Surroundings(
        gpus_per_node=0 if gpus is None else gpus.per_node,
        capacity=None if capacity is None else capacity.beside(others),
        pool=gpus,
        reach=reached_alone(options),
        pools=tuple(kind.pools(options)),
    )
