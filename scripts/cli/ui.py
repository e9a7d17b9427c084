"""`make ui`: print where a stack's runs are tracked, and connect to the server in its cluster."""

import socket
import subprocess
import time
from collections.abc import Sequence
from tempfile import TemporaryFile

from core.validation import check as validate
from core.wording import as_typed
from infra.tracking.settings import KEY, NAME, PORT, Tracking
from scripts.cli.config import own, require_job, settings_of
from scripts.cli.kubeconfig import kubectl
from scripts.cli.state import read_state
from scripts.cli.terminal import CommandError


def show(stack: str, job: str, port: int) -> int:
    """Print where runs are tracked; forward `port` if that is a server in the cluster; return 0."""
    settings = _settings(stack)
    state = read_state(stack, secrets=settings.is_installed)
    if job:
        require_job(stack, job, state.jobs)
    result = state.jobs[job].result if job else None
    page = (result and result.tracking) or ""
    if not settings.is_installed:
        print(as_typed(elsewhere(settings, stack, job, page)))
        return 0
    if state.kubeconfig is None or state.namespace is None:
        raise CommandError(f"Stack {stack} has no MLflow yet; `make up STACK={stack}` installs it.")
    with kubectl(state.kubeconfig) as command:
        line = [*command, f"--namespace={state.namespace}"]
        text, again = announcement(stack, job, page, port), f"make ui STACK={stack}"
        forward(line, f"service/{NAME}", (port, PORT), text, again)
    return 0


def announcement(stack: str, job: str, page: str, port: int) -> str:
    """Describe where to find a job's last run or, if it has no page, the server in the cluster."""
    server = f"http://localhost:{port}"
    if not page:
        runs = f"MLflow with the runs of {stack}: {server} (Ctrl-C disconnects)"
        if not job:
            return runs
        return (
            f"{runs}\nThe last result of {job} has no page: the run has not finished, or it "
            f"finished before runs were tracked. Its runs are in the experiment {stack}/{job}."
        )
    return f"The last run of {job}: {server}/#/{page.partition('/#/')[2]} (Ctrl-C disconnects)"


def elsewhere(settings: Tracking, stack: str, job: str, page: str) -> str:
    """Describe where runs are tracked if there is no server in the cluster."""
    if settings.kind == "tensorboard":
        directory = job or "DIRECTORY"
        return (
            "Runs write TensorBoard files, and the stack keeps them:\n"
            f"  make fetch JOB={job or 'NAME'} TO={directory} STACK={stack}\n"
            f"  tensorboard --logdir {directory}"
        )
    if page:
        return f"The last run of {job}: {page}"
    called = {"mlflow": "MLflow", "wandb": "Weights & Biases"}[settings.kind]
    return f"{called} with the runs of {stack}: {settings.place.get('address', 'https://wandb.ai')}"


def _settings(stack: str) -> Tracking:
    """Return the stack's tracking settings, or raise if they are missing or invalid."""
    written, file = settings_of(stack).get(KEY), own(stack).name
    if written is None:
        raise CommandError(
            f"Runs of {stack} are not tracked. To install MLflow in its cluster, add this line to "
            f"`config` in {file}, and run `make up STACK={stack}`; no job is retrained:\n"
            f"  {KEY}: {{kind: mlflow}}\nAlternatives: docs/tracking.md"
        )
    settings = validate(Tracking, written if isinstance(written, dict) else {}, KEY)
    if isinstance(settings, list):
        problems = "".join(f"\n  {problem}" for problem in settings)
        raise CommandError(f"Correct {file} and run the command again:{problems}")
    return settings


def forward(line: Sequence[str], to: str, ports: tuple[int, int], text: str, again: str) -> None:
    """Forward a port until Ctrl-C; print `text` once the port can be used."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as kubectl does
        try:
            probe.bind(("127.0.0.1", ports[0]))
        except OSError as error:
            raise CommandError(
                f"Port {ports[0]} on this machine can't be used ({error.strerror}): another "
                "program, such as another instance of this command, may be using it. Try another "
                f"port: `{again} PORT={ports[0] + 1}`."
            ) from error
    line = [*line, "port-forward", "--address=127.0.0.1", to, "{}:{}".format(*ports)]
    try:
        while (reason := _forwarded(line, text)) is None:
            time.sleep(0.5)  # the connection broke, e.g. on a server restart
            text = ""
    except KeyboardInterrupt:  # not a failure
        return
    raise CommandError(
        f"{to} can't be reached: {reason}\nOnce it is running again (`make up` restores it), run "
        f"the command again: {again}"
    )


def _forwarded(line: Sequence[str], text: str) -> str | None:
    """Run kubectl until it exits; return its error message, or None if it forwarded the port."""
    is_ready = False
    with TemporaryFile("w+") as errors:
        with subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            try:
                assert process.stdout is not None  # noqa: S101 - a pipe
                for printed in process.stdout:
                    if printed.startswith("Forwarding"):
                        if text and not is_ready:
                            print(text, flush=True)
                        is_ready = True
            finally:
                process.terminate()
                process.wait()  # even after Ctrl-C
        errors.seek(0)
        return None if is_ready else errors.read().strip() or "kubectl gave no reason"
