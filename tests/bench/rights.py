"""`make audit`: the rights of the operator, the waiter and jobs beside what they used.

In a stack of its own, whose API server keeps an audit log, jobs succeed, fail, are retried and are
waited for in their cluster, and the smoke checks pass. A right that nobody used is printed; each of
those is explained in docs/security.md or goes.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from core.paths import CHECKOUT
from scripts.scratch import Scratch
from tests.engine.stack import LiveStack

_LIMIT_SECONDS = 15 * 60.0
_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""
_SETTINGS = """\
config:
  slipway:cluster: {kind: embedded}
  slipway:jobs:
    mnist-gloo: {workers: 1, args: [--limit-train, "3000"], minAccuracy: 0.1, cpu: 100m}
    mnist-elastic: {args: [--limit-train, "3000"], minAccuracy: 0.1, cpu: 100m}
    detached: {script: ends.py, args: ["0"], wait: false}
    detached-fails: {script: ends.py, args: ["3"], wait: false, retries: 1, restartPolicy: Never}
    fails: {script: ends.py, args: ["3"], workers: 1}
"""
_SCRIPT = (
    "import sys, time; print('loss=1.0', flush=True); time.sleep(3); sys.exit(int(sys.argv[1]))"
)
_REFUSED = {"waiter: list nodes"}
"""What an account asks for and does without: the waiter says so where it can't see a node."""
Right = tuple[str, str]
"""A verb, and the resource that it is for."""


def main() -> None:
    """Print a line for each granted right, and exit with 1 if anything unexpected was forbidden."""
    scratch = Scratch.copy_of(CHECKOUT)
    log, policy = scratch.directory / "audit.log", scratch.directory / "policy.yaml"
    policy.write_text(_POLICY)
    node = scratch.checkout / "clusters/embedded/node.yaml"
    flags = (
        f"kube-apiserver:\n  flags:\n    audit-log-path: {log}\n    audit-policy-file: {policy}\n"
    )
    node.write_text(node.read_text().replace("kube-apiserver:\n  flags:\n", flags, 1))
    (scratch.checkout / "ends.py").write_text(_SCRIPT)
    (scratch.checkout / "Pulumi.dev.yaml").write_text(_SETTINGS)
    stack = LiveStack(scratch)
    try:
        _run(scratch, "make up", 2)  # the failing job fails it
        for job in ("detached", "detached-fails"):
            _run(scratch, f"make wait JOB={job}", 1, 2)
        _run(scratch, "make smoke", 2)
        granted = _granted(stack)
        _run(scratch, "make down")
        used, forbidden = _used(log)
    finally:
        scratch.run("make down", _LIMIT_SECONDS)
        scratch.remove()
    table = Table("account", "verb", "resource", "requests", box=box.SIMPLE)
    for account, rights in sorted(granted.items()):
        for right in sorted(rights):
            verb, resource = right
            table.add_row(account, verb, resource, str(used[account][right] or "never"))
    console = Console(width=120)
    console.print(table)
    for each in sorted(forbidden):
        console.print(f"forbidden: {each}")
    raise SystemExit(int(not forbidden <= _REFUSED))


def _run(scratch: Scratch, command: str, *codes: int) -> None:
    finished = scratch.run(command, _LIMIT_SECONDS)
    if finished.code not in (0, *codes):
        raise SystemExit(str(finished))


def _granted(stack: LiveStack) -> dict[str, set[Right]]:
    """Return the rights that roles grant to the operator's, a waiter's and the jobs' accounts."""
    listing = json.loads(
        stack.kubectl(
            "get roles,clusterroles,rolebindings,clusterrolebindings --all-namespaces --output json"
        )
    )["items"]
    roles = {
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): {
            (verb, _named(group, resource))
            for rule in each.get("rules") or ()
            for group in rule.get("apiGroups", ())
            for resource in rule.get("resources", ())
            for verb in rule["verbs"]
        }
        for each in listing
    }
    rights: dict[str, set[Right]] = defaultdict(set)
    for binding in (each for each in listing if "roleRef" in each):
        role, space = binding["roleRef"], binding["metadata"].get("namespace")
        place = space if role["kind"] == "Role" else None
        for subject in binding.get("subjects", ()):
            account = _account(f"{subject.get('namespace')}:{subject['name']}")
            if account is not None:
                rights[account] |= roles.get((role["kind"], place, role["name"]), set())
    return rights


def _named(group: str, resource: str) -> str:
    return f"{resource}.{group}".rstrip(".")


def _account(name: str) -> str | None:
    """Return whose a service account (`namespace:name`) is, None if it is none of those."""
    space, _, own = name.partition(":")
    if space == "kubeflow":
        return "operator"
    if space == "slipway-jobs":
        return "waiter" if own.endswith("-waiter") else own
    return None


def _used(log: Path) -> tuple[dict[str, Counter[Right]], set[str]]:
    """Return how many requests each account made, and what it was refused."""
    used: dict[str, Counter[Right]] = defaultdict(Counter)
    forbidden: set[str] = set()
    with log.open() as lines:
        for event in map(json.loads, lines):
            prefix, _, name = event["user"]["username"].partition("system:serviceaccount:")
            account = None if prefix else _account(name)
            target = event.get("objectRef", {})
            if account is None or "resource" not in target:
                continue
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            used[account][event["verb"], _named(target.get("apiGroup", ""), resource)] += 1
            if event.get("responseStatus", {}).get("code") == 403:
                forbidden.add(f"{account}: {event['verb']} {resource}")
    return used, forbidden


if __name__ == "__main__":
    main()
