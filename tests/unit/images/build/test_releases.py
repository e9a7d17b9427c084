"""Which version of torch a job gets, and which it can't have."""

import pytest

from clusters.azure.facts import GPUS, LOCAL_GPUS, cards
from images.build.releases import RELEASES, Card, Release, usable
from images.build.trainer import TRAINER, TRAINER_CIFAR, TRAINER_CUDA, trainer, trainer_of


def test_the_newest_that_can_be_had_is_the_default() -> None:
    assert (TRAINER.torch, TRAINER_CIFAR.torch, TRAINER_CUDA.torch) == ("2.14", "2.14", "2.15")
    assert trainer("2.14", cifar=True) is TRAINER_CIFAR
    assert trainer("2.15", gpus=True) is TRAINER_CUDA


def test_another_version_is_another_image_which_is_known_by_its_name() -> None:
    other = trainer("2.6")
    assert other.name == "slipway-trainer-2.6"
    assert other.content_hash != TRAINER.content_hash
    for name, known in (
        (f"localhost/{other.name}:1", other),
        ("localhost/slipway-trainer-cuda-2.10:1", trainer("2.10", gpus=True)),
        ("localhost/slipway-trainer-cifar:1", TRAINER_CIFAR),
        ("localhost/slipway-trainer:2", TRAINER),
        ("example.org/slipway-trainer:2", None),
    ):
        assert trainer_of(name) == known


@pytest.mark.parametrize(
    ("card", "wanted"),
    [
        (Card("sm_120"), ["2.15", "2.14", "2.10"]),
        (Card("sm_70"), ["2.10", "2.6"]),
        (Card("sm_86", cuda=12), ["2.10", "2.6"]),
        (Card("sm_89"), ["2.15", "2.14", "2.10", "2.6"]),  # by the kernels for sm_86 and sm_80
        (Card("sm_37"), []),
    ],
    ids=str,
)
def test_a_gpu_takes_versions_and_cuda_that_fit_it(card: Card, wanted: list[str]) -> None:
    assert [each.torch for each in usable([card])] == wanted
    of_both = [each for each in wanted if each in {"2.10", "2.6"}]
    assert [each.torch for each in usable([card, Card("sm_70")])] == of_both


def test_some_are_for_gpus_alone() -> None:
    assert [each.torch for each in usable(None)] == ["2.14", "2.6"]
    assert RELEASES["2.15"].unfit(None) == "is available for GPUs only"
    packaged = Release("1.0", "trixie", debian={"torch": "1.0.0"})
    assert packaged.unfit(()) == "is available for CPUs only"


@pytest.mark.parametrize("size", [*GPUS, *LOCAL_GPUS])
def test_of_each_size_the_gpu_is_known_and_a_version_runs_on_it(size: str) -> None:
    assert len(cards(size)) == 1
    assert next(usable(cards(size)), None) is not None
