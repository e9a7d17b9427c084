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
    found = ExistingOperator("1.9.3", "kubeflow", "training-operator", judges=True)
    assert decided(SERVING, wanted) == found


@pytest.mark.parametrize("wanted", ["auto", "install"])
def test_the_stacks_own_is_kept(wanted: Requested) -> None:
    assert decided(replace(SERVING, made_by=MINE), wanted) is None
    # Its `up` was killed before the Deployment was there.
    assert decided(Found(serves=True, made_by=MINE, deployed=()), wanted) is None


def test_the_stacks_own_operator_is_not_an_existing_one() -> None:
    said = refusal(replace(SERVING, made_by=MINE), "existing")
    assert "this stack installed the operator itself" in said


def test_a_second_one_is_not_installed() -> None:
    assert "kubeflow/training-operator, and two would both" in refusal(SERVING, "install")


def test_a_missing_operator_is_refused_where_one_must_exist() -> None:
    assert "no training operator is installed" in refusal(EMPTY, "existing")


@pytest.mark.parametrize("wanted", ["auto", "existing"])
def test_kubeflow_trainer_2_is_refused_with_the_reason(wanted: Requested) -> None:
    said = refusal(replace(EMPTY, trainer=True), wanted)
    assert "runs TrainJobs but not PyTorchJobs" in said


def test_beside_kubeflow_trainer_2_one_is_installed_when_asked_for() -> None:
    assert decided(replace(EMPTY, trainer=True), "install") is None


def test_one_that_is_too_old_is_refused_with_its_version() -> None:
    old = replace(NEWEST, image="kubeflow/training-operator:v1-5a5f92d")
    assert "is version 1.6.0; accepted: 1.7 to 1.9" in refusal(replace(SERVING, deployed=(old,)))


def test_one_of_1_7_has_no_webhook_that_could_be_waited_for() -> None:
    old = replace(NEWEST, image="kubeflow/training-operator:v1-855e096")
    used = decided(replace(SERVING, deployed=(old,), judged=False))
    assert used == ExistingOperator("1.7.0", "kubeflow", "training-operator", judges=False)


def test_one_for_another_namespace_is_refused_with_what_to_name() -> None:
    other = replace(NEWEST, args=("--namespace=team-a",))
    said = refusal(replace(SERVING, deployed=(other,)))
    assert "handles only the namespace team-a" in said
    assert "set slipway:cluster.namespace to the one it handles" in said


def test_of_several_the_one_that_fits_is_used() -> None:
    other = replace(NEWEST, namespace="b", args=("--namespace=b",))
    used = decided(replace(SERVING, deployed=(other, NEWEST)))
    assert used is not None
    assert used.namespace == "kubeflow"


def test_an_image_without_a_version_needs_a_webhook() -> None:
    unnamed = replace(NEWEST, image="example.org/operator:latest")
    assert decided(replace(SERVING, deployed=(unnamed,))) == ExistingOperator(
        None, "kubeflow", "training-operator", judges=True
    )
    said = refusal(replace(SERVING, deployed=(unnamed,), judged=False))
    assert "whose name contains no version, and no webhook" in said


def test_one_that_may_not_be_seen_is_used_when_its_webhook_judges() -> None:
    assert decided(Found(serves=True, judged=True)) == ExistingOperator()


def test_one_that_may_not_be_seen_nor_tried_is_left_to_the_gate() -> None:
    assert decided(Found(serves=True)) == ExistingOperator()


def test_pytorchjobs_without_an_operator_are_refused() -> None:
    said = refusal(Found(serves=True, deployed=(), judged=False))
    assert "but no operator seems to run them" in said
    assert decided(Found(serves=True, deployed=(), judged=False), "install") is None
