"""`make kubeconfig`: add a cluster to the user's kubeconfig, which no other command changes."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from core import files, process, toolchain
from core.paths import project_name
from scripts.cli.state import read_state
from scripts.cli.terminal import CommandError


def merge(stack: str) -> int:
    """Add or update the context `slipway-<stack>`, and print how to undo it."""
    kubeconfig = read_state(stack, secrets=True).kubeconfig
    if kubeconfig is None:
        raise CommandError(f"Stack {stack} has no cluster yet; `make up STACK={stack}` creates it.")
    name, file = f"{project_name()}-{stack}", own()
    if file.exists() and not file.is_file():
        raise CommandError(f"{file} is not a file; set KUBECONFIG to the file to add {name} to.")
    with tempfile.TemporaryDirectory(prefix="slipway-kubeconfig-") as directory:
        added = Path(directory, "config")
        files.write(added, named(kubeconfig, name), mode=0o600)
        # kubectl uses the first of two entries with the same name. No --flatten: it would embed the
        # files that the user's entries refer to.
        command = (str(toolchain.path("kubectl")), "config", "view", "--raw")
        try:
            before = yaml.safe_load(process.run(*command))  # the context may be in another file
            merged = process.run(*command, variables={"KUBECONFIG": f"{added}{os.pathsep}{file}"})
        except process.CommandFailed as error:
            raise CommandError(f"kubectl can't merge into {file}: {error}") from error
    current = str(before.get("current-context"))
    if current not in {each["name"] for each in before["contexts"] or ()}:
        # Without a current context, kubectl tries localhost:8080, where nothing is listening.
        current, document = name, yaml.safe_load(merged)
        merged = yaml.safe_dump({**document, "current-context": name}, sort_keys=False)
    file.resolve().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write(file, merged, mode=0o600)
    print(explanation(name, file, current))
    return 0


def own() -> Path:
    """Return the file that kubectl reads first: the first in $KUBECONFIG, or ~/.kube/config."""
    listed = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(listed[0]) if listed else Path.home() / ".kube" / "config"


def named(kubeconfig: str, name: str) -> str:
    """Return a kubeconfig with its context, cluster and user renamed, and no current context."""
    document = yaml.safe_load(kubeconfig)
    (context,), (cluster,), (user,) = (document[each] for each in ("contexts", "clusters", "users"))
    for part in (context, cluster, user):
        part["name"] = name
    context["context"] |= {"cluster": name, "user": name}
    del document["current-context"]
    return yaml.safe_dump(document, sort_keys=False)


@contextmanager
def kubectl(kubeconfig: str) -> Iterator[Sequence[str]]:
    """Yield kubectl's command line for a cluster; its files are deleted after the `with` block."""
    with tempfile.TemporaryDirectory(prefix="slipway-kubectl-") as directory:
        file = Path(directory, "config")
        files.write(file, kubeconfig, mode=0o600)
        # By default, the cache would be in the user's ~/.kube.
        yield (str(toolchain.path("kubectl")), f"--kubeconfig={file}", f"--cache-dir={directory}")


def explanation(name: str, file: Path, current: str) -> str:
    """Describe what `merge` did and how to undo it; `current` is the current context."""
    kubectl = f"kubectl --kubeconfig {file} config"
    steps = [f"delete-{part} {name}" for part in ("context", "cluster", "user")]
    kept = f"the current context is still {current}; to switch: {kubectl} use-context {name}"
    if current == name:
        kept, steps = "it is the current context", [*steps, "unset current-context"]
    undo = " && ".join(f"{kubectl} {step}" for step in steps)
    return (
        f"{file} now contains the context {name}; {kept}\n"
        f"Try it: kubectl --kubeconfig {file} --context {name} get nodes\n"
        f"Undo it: {undo}"
    )
