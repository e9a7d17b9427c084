"""`make kubeconfig` says which context is the current one, and how to make the new one that."""

from pathlib import Path

from scripts.cli.kubeconfig import explanation

FILE = Path("/home/me/.kube/config")


def test_the_context_that_the_person_works_in_is_named_as_still_the_current_one() -> None:
    first, *_ = explanation("slipway-kind", FILE, "mine").splitlines()
    assert first.endswith("now; the current context is mine, as before")


def test_where_no_context_is_the_current_one_the_command_that_makes_it_so_is_said() -> None:
    first, *_ = explanation("slipway-kind", FILE).splitlines()
    command = f"kubectl --kubeconfig {FILE} config use-context slipway-kind"
    assert first.endswith(f"none is the current one, as before; to work in it: {command}")
