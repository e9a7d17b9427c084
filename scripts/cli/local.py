"""`make local JOB=…` and `run SCRIPT`: run a job's ranks as processes on this machine.

<state>/local/<owner>/runs/<job>/<run id>/   the last runs: result.json, logs, files
<state>/local/<owner>/kept/                  checkpoints, from which the next run continues
"""

import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from core.files import locked, private_directory, write
from core.paths import distinct, environment_dir, of_project, state_dir
from core.problem import raised
from core.process import run as answer
from jobs import config
from jobs.model.job import TrainingJob
from jobs.model.pytorchjob import Topology
from jobs.model.volumes import Script
from jobs.observe.run_state import counted
from jobs.records.archive import Archive, Run
from jobs.records.recording import is_recording
from jobs.rules.rule import Surroundings
from jobs.run.gate import judge, limits
from jobs.run.local import LocalRun
from jobs.run.local_process import problems
from scripts.cli.backend import INTERRUPTED
from scripts.cli.config import job_name, require_job, settings_of
from scripts.cli.runs.logs import Printer, names_of
from scripts.cli.terminal import CommandError, echo

_KEY, _KEPT = "slipway:jobs", 5
_ABOUT = "import sys; print(sys.executable, *sys.version_info[:2], sep='\\n')"
_DIFFERS = (
    "Without a cluster there are no CPU or memory limits, no isolation and no restarts; "
    "the job uses this machine's packages, variables, files and network (docs/local.md)."
)


def run_job(stack: str, job: str, python: str = "") -> int:
    """Run one of a stack's jobs on this machine; return 0 if it succeeded and met its limits."""
    section = settings_of(stack).get(_KEY)
    jobs = section if isinstance(section, dict) else {}
    require_job(stack, job, jobs)
    return _run(job, jobs, python, of_project(stack))


def run_script(
    script: str,
    args: Sequence[str] = (),
    settings: Sequence[str] = (),
    python: str = "",
    workers: int | None = None,
) -> int:
    """Run a script with `args` and job `settings`, such as `timeout=10m`; see `run_job`."""
    declared: dict[str, Any] = {}
    for each in settings:
        try:
            name, value = each.split("=", 1)
            declared[name] = yaml.safe_load(value)
        except (ValueError, yaml.YAMLError) as error:
            what = "NAME=YAML, such as 'require={loss: {max: 0.5}}'"
            why = f": {' '.join(str(error).split())}" if isinstance(error, yaml.YAMLError) else ""
            raise CommandError(f"--set {each} is not allowed{why}; use {what}.") from error
    path = Path(script).absolute()
    options = {"args": [*args] or None, "workers": workers, "script": str(path)}
    declared |= {name: value for name, value in options.items() if value is not None}
    name = job_name(path)
    return _run(name, {name: declared}, python, distinct(path.resolve()))


def _run(name: str, jobs: Mapping[str, Any], python: str, place: str) -> int:
    key, loaded = f"{_KEY}.{name}", config.read(jobs, _KEY, Surroundings())
    wrong = [each for each in loaded.problems if f"{each.key}.".startswith(f"{key}.")]
    own = [each for each in loaded.jobs if each.name == name]
    if wrong := [*wrong, *(each for job in own for each in problems(job, key))]:
        raise CommandError("\n  ".join(["Nothing was run:", *map(str, wrong)]))
    folder = state_dir() / "local" / place
    archive, path = Archive(folder / "runs" / name), _python(python)
    runs = archive.runs()
    archive.keep([each.id for each in runs if each in runs[-_KEPT + 1 :] or is_recording(each)])
    run_id = f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    private_directory(folder / "kept")
    # Another run would use the same checkpoints, and remove them once it has succeeded.
    alone = locked(folder / "kept" / f"checkpoints-of-{name}.lock", limit=0)
    try:
        with nullcontext() if own[0].checkpoint is None else alone:
            return _train(own[0], loaded.scripts[name], path, archive.run(run_id), folder / "kept")
    except KeyboardInterrupt:
        echo("Interrupted; all ranks have exited.")
        return INTERRUPTED


def _train(job: TrainingJob, script: Script, python: str, kept: Run, checkpoints: Path) -> int:
    """Run a job until it finishes, then write the result and check it against the job's limits."""
    private_directory(kept.directory)
    topology = Topology(job.workers + 1, job.processes_per_node)
    printer = Printer(names_of(job.name, topology, None), raw=False)

    def show(replica: int, text: str) -> None:
        printer.print(text, replica, kept.id, str(replica))
        printer.out.flush()

    ranks = counted(topology.world_size, "rank")
    echo(f"{job.name}: {ranks} on this machine, with {python}. {_DIFFERS}")
    result = LocalRun(job, script, python, kept, checkpoints, show, echo).to_the_end()
    write(kept.directory / "result.json", json.dumps(result.as_map(), indent=2), mode=0o600)
    bounds = {"job": job.name, **limits(job), "drill": None}
    text = raised(lambda: judge(bounds, result, kept, echo, "What to do:"), RuntimeError)
    echo(f"job {job.name}: {result}" if text is None else text)
    echo(f"result.json, logs and files: {kept.directory}")
    return 0 if text is None else 1


def _python(name: str) -> str:
    """Return the Python interpreter for the ranks: `name`, or else the user's python3 on PATH."""
    # `make env` puts Slipway's own Python first.
    own = [each for each in os.get_exec_path() if each != str(environment_dir() / "bin")]
    os.environ["PATH"] = os.pathsep.join(own)
    if (program := shutil.which(name or "python3")) is None:
        raise CommandError(f"There is no {name or 'python3'} on PATH; choose one with --python.")
    path, *version = answer(program, "-c", _ABOUT).splitlines()
    if tuple(map(int, version)) < (3, 10):
        raise CommandError(f"{path} is Python {'.'.join(version)}; 3.10 or newer is required.")
    return path
