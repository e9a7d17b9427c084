"""A stack uses the operator and the namespace that are there, or is refused: from what was seen."""

from dataclasses import replace

import pytest

from clusters.cluster import ExistingOperator
from clusters.kubeconfig.choice import Unusable
from clusters.kubeconfig.cluster import require_alone, require_home, require_namespace
from clusters.kubeconfig.found import Deployed, Found, decide
from clusters.kubeconfig.settings import Requested
from clusters.operator import has_webhook, is_accepted, version_of

NEWEST = Deployed("kubeflow", "training-operator", "ghcr.io/x/training-operator:v1-d6eb98e")
EMPTY = Found(deployed=())
MINE = "slipway/mine"
USED = ExistingOperator("1.9.3", "kubeflow", "training-operator", judges=True)


def serving(*deployed: Deployed, judged: bool = True) -> Found:
    return Found(serves=True, deployed=deployed, judged=judged)


SERVING = serving(NEWEST)


def decided(found: Found, wanted: Requested = "auto") -> ExistingOperator | None:
    return decide(wanted, found, stack=MINE, namespace="slipway-jobs")


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("kubeflow/training-operator:v1-855e096", "1.7.0"),
        ("ghcr.io/kubeflow/training-v1/training-operator:v1-3f15cb8", "1.9.2"),
        ("localhost:5000/mirror/training-operator:v1.8.1", "1.8.1"),
        ("slipway.local/training-operator:v1.9.4@sha256:0123", "1.9.4"),
        ("training-operator:1.9.0-rc.0", "1.9.0"),
        ("localhost:5000/training-operator", None),
        ("training-operator:latest", None),
        ("training-operator:v1-0000000", None),
    ],
)
def test_the_version_comes_from_the_images_tag(image: str, version: str | None) -> None:
    assert version_of(image) == version


def test_versions_1_7_to_1_9_are_accepted_and_judge_from_1_8_on() -> None:
    accepted = ["1.6.0", "1.7.0", "1.8.1", "1.9.3", "1.10.0", "2.0.0"]
    assert [is_accepted(each) for each in accepted] == [False, True, True, True, False, False]
    assert [has_webhook(each) for each in ("1.7.0", "1.8.0", "1.10.0")] == [False, True, True]


NAMELESS = replace(NEWEST, image="example.org/operator:latest")
OLDER = replace(NEWEST, image="kubeflow/training-operator:v1-855e096")
TOO_OLD = replace(NEWEST, image="kubeflow/training-operator:v1-5a5f92d")
OF_TEAM = replace(NEWEST, args=("--namespace=team-a",))
UNSERVED = Found(serves=True, deployed=(), judged=False)
TRAINER = replace(EMPTY, trainer=True)
"""Kubeflow Trainer 2."""


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [
        (replace(SERVING, made_by=MINE), "existing", "this stack installed the operator itself"),
        (SERVING, "install", "kubeflow/training-operator, and two would both"),
        (EMPTY, "existing", "no training operator is installed"),
        (TRAINER, "existing", "runs TrainJobs but not PyTorchJobs"),
        (serving(TOO_OLD), "auto", "is version 1.6.0; accepted: 1.7 to 1.9"),
        (
            serving(OF_TEAM),
            "auto",
            "handles only the namespace team-a.*set slipway:cluster.namespace to the one it",
        ),
        (serving(NAMELESS, judged=False), "auto", "whose name contains no version, and no webhook"),
        (UNSERVED, "auto", "but no operator seems to run them"),
    ],
)
def test_an_operator_that_can_not_be_used_is_refused(
    found: Found, wanted: Requested, words: str
) -> None:
    told = rf"^slipway:cluster.operator: {wanted}: .*{words}.*allowed: auto, existing, install$"
    with pytest.raises(Unusable, match=told):
        decided(found, wanted)


@pytest.mark.parametrize(
    ("found", "wanted", "used"),
    [
        (EMPTY, "auto", None),
        (EMPTY, "install", None),
        (SERVING, "auto", USED),
        (SERVING, "existing", USED),
        # The stack's own is kept, also where its `up` was killed before the Deployment was there.
        (replace(SERVING, made_by=MINE), "auto", None),
        (replace(SERVING, made_by=MINE), "install", None),
        (Found(serves=True, made_by=MINE, deployed=()), "auto", None),
        # Where none runs PyTorchJobs, one is installed when asked for.
        (TRAINER, "install", None),
        (UNSERVED, "install", None),
        # One of 1.7 has no webhook that could be waited for.
        (serving(OLDER, judged=False), "auto", replace(USED, version="1.7.0", judges=False)),
        # Of several the one that fits, and one without a version where it judges.
        (serving(OF_TEAM, NEWEST), "auto", USED),
        (serving(NAMELESS), "auto", replace(USED, version=None)),
        # One that may not be seen, where its webhook judges, or can't be tried: the gate waits.
        (Found(serves=True, judged=True), "auto", ExistingOperator()),
        (Found(serves=True), "auto", ExistingOperator()),
    ],
)
def test_an_operator_that_fits_is_used_and_a_missing_one_installed(
    found: Found, wanted: Requested, used: ExistingOperator | None
) -> None:
    assert decided(found, wanted) == used


def test_a_namespace_is_the_stacks_own_or_configured_by_name_and_there() -> None:
    own, theirs = (Found(namespaces={"slipway-jobs": each}) for each in (MINE, None))
    for found in (Found(), own):
        require_namespace(found, "slipway-jobs", MINE, named=False)
    with pytest.raises(Unusable, match="is not this stack's; set it here to use it anyway"):
        require_namespace(theirs, "slipway-jobs", MINE, named=False)
    for found in (theirs, Found(unseen=frozenset({"slipway-jobs"}))):
        require_namespace(found, "slipway-jobs", MINE, named=True)
    with pytest.raises(Unusable, match="kubectl create namespace team-a"):
        require_namespace(Found(), "team-a", MINE, named=True)


def test_the_operator_is_not_installed_into_an_existing_namespace() -> None:
    require_home(Found(namespaces={"kubeflow": MINE}), MINE)
    with pytest.raises(Unusable, match="`make down` would remove it"):
        require_home(Found(namespaces={"kubeflow": None}), MINE)


OTHERS = "slipway/dev"


@pytest.mark.parametrize(
    "found",
    [
        replace(SERVING, made_by=OTHERS),
        serving(replace(NEWEST, made_by=OTHERS)),
        Found(namespaces={"kubeflow": OTHERS}),
        replace(SERVING, made_by=OTHERS, namespaces={"slipway-jobs": OTHERS}, jobs_of=OTHERS),
    ],
    ids=["its CRD", "its Deployment", "its namespace", "all of it"],
)
def test_another_stacks_operator_is_that_stacks_alone(found: Found) -> None:
    with pytest.raises(Unusable) as caught:
        require_alone(found, "slipway-jobs", MINE)
    said = str(caught.value)
    assert said.startswith("slipway:cluster: the stack slipway/dev installed")
    assert "If Slipway installed a cluster's operator, only one stack can use" in said
    assert "move the jobs into that stack's slipway:jobs, or use a separate" in said
    harmful = ("import", "upsert", "existing", "set it here", "cluster.namespace")
    assert [each for each in harmful if each in said] == []


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
    told = (
        "^slipway:cluster.namespace: team-a contains the jobs of the stack slipway/dev.*"
        "set another existing one, move the jobs into that stack's slipway:jobs"
    )
    with pytest.raises(Unusable, match=told):
        require_alone(found, "team-a", MINE)


def test_what_is_the_stacks_own_or_nobodys_of_slipway_is_in_no_ones_way() -> None:
    mine = {"kubeflow": MINE, "slipway-jobs": MINE}
    own = replace(SERVING, made_by=MINE, namespaces=mine, jobs_of=MINE)
    for found in (Found(), SERVING, own, Found(namespaces={"kubeflow": None, "team-a": OTHERS})):
        require_alone(found, "slipway-jobs", MINE)
