"""Whether a stack uses the training operator that is there: decided from what was seen."""

from dataclasses import replace

import pytest

from clusters.cluster import ExistingOperator
from clusters.kubeconfig.choice import Unusable
from clusters.kubeconfig.found import Deployed, Found, decide
from clusters.kubeconfig.settings import Requested
from clusters.operator.releases import has_webhook, is_accepted, version_of

NEWEST = Deployed("kubeflow", "training-operator", "ghcr.io/x/training-operator:v1-d6eb98e")
EMPTY = Found(deployed=())
SERVING = Found(serves=True, deployed=(NEWEST,), judged=True)
MINE = "slipway/mine"
USED = ExistingOperator("1.9.3", "kubeflow", "training-operator", judges=True)


def decided(found: Found, wanted: Requested = "auto") -> ExistingOperator | None:
    return decide(wanted, found, stack=MINE, namespace="slipway-jobs")


def refusal(found: Found, wanted: Requested = "auto") -> str:
    with pytest.raises(Unusable) as caught:
        decided(found, wanted)
    text = str(caught.value)
    assert text.startswith(f"slipway:cluster.operator: {wanted}: ")
    assert text.endswith("allowed: auto, existing, install")
    return text


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("kubeflow/training-operator:v1-855e096", "1.7.0"),
        ("ghcr.io/kubeflow/training-v1/training-operator:v1-3f15cb8", "1.9.2"),
        ("ghcr.io/kubeflow/training-v1/training-operator:v1-93c5489", "1.9.4"),
        ("localhost:5000/mirror/training-operator:v1.8.1", "1.8.1"),
        ("slipway.local/training-operator:v1.9.4@sha256:0123", "1.9.4"),
        ("training-operator:1.9.0-rc.0", "1.9.0"),
        ("localhost:5000/training-operator", None),
        ("training-operator:latest", None),
        ("training-operator@sha256:0123", None),
        ("training-operator:v1-0000000", None),
    ],
)
def test_the_version_comes_from_the_images_tag(image: str, version: str | None) -> None:
    assert version_of(image) == version


def test_versions_1_7_to_1_9_are_accepted_and_judge_from_1_8_on() -> None:
    accepted = ["1.6.0", "1.7.0", "1.8.1", "1.9.3", "1.10.0", "2.0.0"]
    assert [is_accepted(each) for each in accepted] == [False, True, True, True, False, False]
    assert [has_webhook(each) for each in ("1.7.0", "1.8.0", "1.10.0")] == [False, True, True]


@pytest.mark.parametrize("wanted", ["auto", "install"])
def test_where_there_is_none_one_is_installed(wanted: Requested) -> None:
    assert decided(EMPTY, wanted) is None


@pytest.mark.parametrize("wanted", ["auto", "existing"])
def test_the_one_that_is_there_is_used(wanted: Requested) -> None:
    assert decided(SERVING, wanted) == USED


@pytest.mark.parametrize("wanted", ["auto", "install"])
def test_the_stacks_own_is_kept(wanted: Requested) -> None:
    assert decided(replace(SERVING, made_by=MINE), wanted) is None
    # Its `up` was killed before the Deployment was there.
    assert decided(Found(serves=True, made_by=MINE, deployed=()), wanted) is None


NAMELESS = replace(NEWEST, image="example.org/operator:latest")
OLDER = replace(NEWEST, image="kubeflow/training-operator:v1-855e096")
TOO_OLD = replace(NEWEST, image="kubeflow/training-operator:v1-5a5f92d")
OF_TEAM = replace(NEWEST, args=("--namespace=team-a",))
FOR_TEAM = replace(SERVING, deployed=(OF_TEAM,))
UNJUDGED = replace(SERVING, deployed=(NAMELESS,), judged=False)
UNSERVED = Found(serves=True, deployed=(), judged=False)
TRAINER = replace(EMPTY, trainer=True)
"""Kubeflow Trainer 2."""


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [
        (replace(SERVING, made_by=MINE), "existing", "this stack installed the operator itself"),
        (SERVING, "install", "kubeflow/training-operator, and two would both"),
        (EMPTY, "existing", "no training operator is installed"),
        (TRAINER, "auto", "runs TrainJobs but not PyTorchJobs"),
        (TRAINER, "existing", "runs TrainJobs but not PyTorchJobs"),
        (replace(SERVING, deployed=(TOO_OLD,)), "auto", "is version 1.6.0; accepted: 1.7 to 1.9"),
        (FOR_TEAM, "auto", "handles only the namespace team-a"),
        (FOR_TEAM, "auto", "set slipway:cluster.namespace to the one it handles"),
        (UNJUDGED, "auto", "whose name contains no version, and no webhook"),
        (UNSERVED, "auto", "but no operator seems to run them"),
    ],
)
def test_an_operator_that_can_not_be_used_is_refused(
    found: Found, wanted: Requested, words: str
) -> None:
    assert words in refusal(found, wanted)


@pytest.mark.parametrize(
    ("found", "used"),
    [
        # One of 1.7 has no webhook that could be waited for.
        (
            replace(SERVING, deployed=(OLDER,), judged=False),
            replace(USED, version="1.7.0", judges=False),
        ),
        # Of several the one that fits, and one without a version where it judges.
        (replace(SERVING, deployed=(OF_TEAM, NEWEST)), USED),
        (replace(SERVING, deployed=(NAMELESS,)), replace(USED, version=None)),
        # One that may not be seen, where its webhook judges, or can't be tried: the gate waits.
        (Found(serves=True, judged=True), ExistingOperator()),
        (Found(serves=True), ExistingOperator()),
    ],
)
def test_an_operator_that_fits_is_used(found: Found, used: ExistingOperator) -> None:
    assert decided(found) == used


@pytest.mark.parametrize("found", [TRAINER, UNSERVED])
def test_where_none_runs_pytorchjobs_one_is_installed_when_asked_for(found: Found) -> None:
    assert decided(found, "install") is None
