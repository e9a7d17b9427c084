"""Whether a stack may use a cluster, and a namespace in it, beside other stacks."""

from dataclasses import replace

import pytest

from clusters.kubeconfig.choice import Unusable
from clusters.kubeconfig.cluster import require_alone, require_home, require_namespace
from clusters.kubeconfig.found import Deployed, Found

NEWEST = Deployed("kubeflow", "training-operator", "ghcr.io/x/training-operator:v1-d6eb98e")
SERVING = Found(serves=True, deployed=(NEWEST,), judged=True)
MINE = "slipway/mine"


def test_an_existing_namespace_must_be_configured_by_name() -> None:
    require_namespace(Found(), "slipway-jobs", MINE, named=False)
    own, theirs = (Found(namespaces={"slipway-jobs": each}) for each in (MINE, None))
    require_namespace(own, "slipway-jobs", MINE, named=False)
    with pytest.raises(Unusable, match="is not this stack's; set it here to use it anyway"):
        require_namespace(theirs, "slipway-jobs", MINE, named=False)


def test_a_namespace_that_is_named_has_to_be_there() -> None:
    for found in (Found(namespaces={"team-a": None}), Found(unseen=frozenset({"team-a"}))):
        require_namespace(found, "team-a", MINE, named=True)
    with pytest.raises(Unusable, match="kubectl create namespace team-a"):
        require_namespace(Found(), "team-a", MINE, named=True)


def test_the_operator_is_not_installed_into_an_existing_namespace() -> None:
    require_home(Found(namespaces={"kubeflow": MINE}), MINE)
    with pytest.raises(Unusable, match="`make down` would remove it"):
        require_home(Found(namespaces={"kubeflow": None}), MINE)


OTHERS = "slipway/dev"


@pytest.mark.parametrize("namespace", ["slipway-jobs", "team-a"])
@pytest.mark.parametrize(
    "found",
    [
        replace(SERVING, made_by=OTHERS),
        replace(SERVING, deployed=(replace(NEWEST, made_by=OTHERS),)),
        Found(namespaces={"kubeflow": OTHERS}),
        replace(SERVING, made_by=OTHERS, namespaces={"slipway-jobs": OTHERS}, jobs_of=OTHERS),
    ],
    ids=["its CRD", "its Deployment", "its namespace", "all of it"],
)
def test_another_stacks_operator_is_that_stacks_alone(found: Found, namespace: str) -> None:
    with pytest.raises(Unusable) as caught:
        require_alone(found, namespace, MINE)
    said = str(caught.value)
    assert said.startswith("slipway:cluster: the stack slipway/dev installed")
    assert "If Slipway installed a cluster's operator, only one stack can use" in said
    assert "move this stack's jobs into slipway:jobs of slipway/dev, or use a separate" in said
    harmfuls = ("import", "upsert", "set existing", "operator: existing", "set it here")
    for harmful in (*harmfuls, "cluster.namespace"):
        assert harmful not in said


@pytest.mark.parametrize(
    "found",
    [
        replace(SERVING, namespaces={"team-a": OTHERS}),
        replace(SERVING, namespaces={"team-a": None}, jobs_of=OTHERS),
        replace(SERVING, unseen=frozenset({"team-a"}), jobs_of=OTHERS),
    ],
    ids=["made by it", "somebody else's", "not to be seen"],
)
def test_stacks_with_an_existing_operator_need_separate_namespaces(found: Found) -> None:
    with pytest.raises(Unusable) as caught:
        require_alone(found, "team-a", MINE)
    said = str(caught.value)
    assert said.startswith(
        "slipway:cluster.namespace: team-a contains the jobs of the stack slipway/dev"
    )
    assert "set another existing one, move this stack's jobs into slipway:jobs of" in said


def test_what_is_the_stacks_own_or_nobodys_of_slipway_is_in_no_ones_way() -> None:
    mine = {"kubeflow": MINE, "slipway-jobs": MINE}
    own = replace(SERVING, made_by=MINE, namespaces=mine, jobs_of=MINE)
    for found in (Found(), SERVING, own, Found(namespaces={"kubeflow": None, "team-a": OTHERS})):
        require_alone(found, "slipway-jobs", MINE)
