"""What becomes of a stack's jobs, as its outputs."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Output

from infra import outputs
from infra.training import Run
from jobs import dependencies

_LONG = frozenset({"log", "previous_log", "events"})
"""What the gate's error shows of a failure, and `make results`: the outputs would repeat it."""


def results(runs: Mapping[str, Run]) -> pulumi.Input[Mapping[str, Any]]:
    """Return the results of the jobs that ran, by name; of a failure without its logs."""
    found = {name: run.result.apply(_short) for name, run in runs.items()}
    if pulumi.runtime.is_dry_run():
        return found  # Those that are known are shown beside those to come.

    def there(known: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
        return {name: result for name, result in known.items() if result is not None}

    return Output.all(**found).apply(there) if found else {}


def _short(result: dict[str, Any] | None) -> dict[str, Any] | None:
    if result is None or "failure" not in result:
        return result
    told = {key: value for key, value in result["failure"].items() if key not in _LONG}
    return {**result, "failure": told}


def not_run(runs: Mapping[str, Run]) -> Output[dict[str, str]]:
    """Return why jobs did not run, by name: those that needed one that did not succeed.

    The engine skips them without a word, so it is also a warning.
    """
    jobs = [run.job for run in runs.values()]
    if not any(map(dependencies.prerequisites, jobs)):
        return Output.from_input({})

    def told(known: Mapping[str, Any]) -> dict[str, str]:
        states = {
            name: None if result is None else str(result["state"])
            for name, result in known["results"].items()
        }
        found = dependencies.not_run(jobs, states, known["passed"])
        for name, reason in found.items():
            pulumi.log.warn(f"job {name} did not run: {reason}")
        return found

    results = {name: run.result for name, run in runs.items()}
    passed = {name: outputs.exists(run.gate) for name, run in runs.items()}
    return Output.all(results=results, passed=passed).apply(told)
