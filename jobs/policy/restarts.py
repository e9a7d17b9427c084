"""Restart policies that do not mean what they seem to."""

from collections.abc import Iterator

from jobs.policy.rule import Case, Finding, Rule


def _exit_code_with_backoff(case: Case) -> Iterator[Finding]:
    job = case.job
    if job.restart_policy == "ExitCode" and job.backoff_limit is not None:
        yield Finding(
            ("backoffLimit",),
            f"{job.backoff_limit} would not be kept to: the operator counts restarts of "
            'containers, and with the restart policy "ExitCode" it makes new pods instead',
            'leave `backoffLimit` out, so that `timeout` ends the run, or use "OnFailure"',
        )


def _always(case: Case) -> Iterator[Finding]:
    if case.job.restart_policy == "Always":
        yield Finding(
            ("restartPolicy",),
            '"Always" starts a program again that has ended well, so the run never succeeds',
            '"OnFailure" starts again what failed',
        )


EXIT_CODE_WITH_BACKOFF = Rule(
    "exit-code-with-backoff",
    "https://github.com/kubeflow/trainer/issues/2045",
    _exit_code_with_backoff,
)
ALWAYS = Rule(
    "always",
    "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy",
    _always,
    warns=True,
)
