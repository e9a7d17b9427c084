"""`make kubeconfig` says which context is the current one, and how to make the new one that."""

from pathlib import Path

from scripts.cli.kubeconfig import explanation

FILE = Path("/home/me/.kube/config")


def test_the_current_context_stays_and_the_switch_command_is_shown() -> None:
    first, *_ = explanation("slipway-kind", FILE, "mine").splitlines()
    command = f"kubectl --kubeconfig {FILE} config use-context slipway-kind"
    assert first.endswith(f"the current context is still mine; to switch: {command}")


def test_one_that_became_the_current_one_is_undone_as_that_too() -> None:
    first, _, undo = explanation("slipway-kind", FILE, "slipway-kind").splitlines()
    assert first.endswith("; it is the current context")
    assert undo.endswith("config unset current-context")
