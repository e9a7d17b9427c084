"""What holds a deleted object back is named, with the command that lets it go."""

import pytest

from core.manifests import held


def test_a_foreign_finalizer_is_named_with_the_command_that_takes_it_off() -> None:
    metadata = {"name": "mine", "namespace": "slipway-jobs", "finalizers": ["example.com/hold"]}
    said = held("PyTorchJob", metadata)
    assert said is not None
    assert said.startswith(
        "PyTorchJob mine can't be deleted while it has the finalizer example.com/hold,"
    )
    assert said.endswith(
        "kubectl --namespace slipway-jobs patch pytorchjob mine --type=merge "
        """--patch='{"metadata":{"finalizers":null}}'"""
    )


def test_what_belongs_to_no_namespace_is_named_without_one() -> None:
    said = held("PersistentVolume", {"name": "data", "finalizers": ["a.io/x", "b.io/y"]})
    assert said is not None
    assert "finalizers a.io/x, b.io/y" in said
    assert "kubectl patch persistentvolume data" in said


@pytest.mark.parametrize(
    "finalizers", [None, [], ["foregroundDeletion"], ["orphan"], ["kubernetes.io/pvc-protection"]]
)
def test_finalizers_of_kubernetes_are_not_reported(finalizers: list[str] | None) -> None:
    assert held("Pod", {"name": "mine", "finalizers": finalizers}) is None
