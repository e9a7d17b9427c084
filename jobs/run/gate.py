"""The resource `slipway:jobs:Gate`: an `up` fails when a run did not succeed, or not well enough.

A resource of its own beside the run, so that the run's result is kept whatever it is.
"""

from core.context import Context
from core.handler import Change, Handler, Properties, compare
from jobs.judge.gate_limits import LIMITS, missed
from jobs.result import RunResult, explain


class GateHandler(Handler):
    """Its life: it exists exactly while the run's result is a success that misses no limit.

    It exists in the state alone, and is replaced rather than updated.
    """

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Every new result is judged anew, and by new limits the existing one."""
        changed = {change.path.split(".")[0] for change in compare(state, inputs)}
        # The inputs name no limit that was removed, and no missing result.
        gone = {each for each in ("result", *LIMITS) if each in state and each not in inputs}
        return [Change(path, replace=True) for path in sorted(changed | gone)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Let a success pass.

        Raises:
            RuntimeError: with the history of a run that did not succeed, or by how much one
                that did missed each of its limits.
        """
        job = inputs["job"]
        if inputs.get("result") is None:
            # With PULUMI_CONTINUE_ON_ERROR the engine goes on after an error.
            raise RuntimeError(f"job {job} has no result: its run did not come to an end")
        result = RunResult.of(inputs["result"])
        if not result.succeeded:
            raise RuntimeError(explain(job, result) + _earlier(result))
        if misses := list(missed(inputs, result)):
            raise RuntimeError(_message(job, misses))
        return job, {}


def _earlier(result: RunResult) -> str:
    """Return how the attempts before the last one ended, if any."""
    attempts = result.attempts or ()
    lines = [f"\n    attempt {each['number']}: {each['reason']}" for each in attempts]
    return f"\nit was submitted anew after:{''.join(lines)}" if lines else ""


def _message(job: str, missed: list[str]) -> str:
    listed = "".join(f"\n  {each}" for each in missed)
    what = f": {missed[0]}" if len(missed) == 1 else f" {len(missed)} limits:{listed}\n"
    return (
        f"job {job} succeeded, but missed{what}. Its result is kept and it is not trained again: "
        "change its settings or the limit"
    )
