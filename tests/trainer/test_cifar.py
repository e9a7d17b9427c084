"""The CIFAR-10 demo, run for real in the image's own Python on the set that is in it."""

import json
from pathlib import Path

import pytest

from tests.trainer.conftest import Ended, Opened, Rank

_PROGRAM = ("-m", "slipway_trainer.cifar")
# 1,000 samples over 2 ranks of 24: the last global batch has 40, so shares of 20.
_ARGS = (
    "--data-dir", "/data/cifar10", "--epochs", "2", "--batch-size", "24", "--workers", "1",
    "--learning-rate", "0.01", "--momentum", "0.9", "--output-dir", "/out/model",
    "--print-freq", "5", "--backend", "gloo", "--timeout", "2",
    "--limit-train", "1000", "--limit-test", "600",
)  # fmt: skip

# Seed 002's network as its own script has it, to see that what was saved is what it can load.
_RELOAD = """
import json, torch, torch.nn.functional as F
from slipway_trainer.data.datasets import CIFAR10
net = torch.nn.ModuleDict(dict(
    conv1=torch.nn.Conv2d(3, 32, 3), conv2=torch.nn.Conv2d(32, 64, 3),
    conv3=torch.nn.Conv2d(64, 128, 3), fc1=torch.nn.Linear(128 * 6 * 6, 120),
    fc2=torch.nn.Linear(120, 84), fc3=torch.nn.Linear(84, 10)))
net.load_state_dict(torch.load("/out/model/cifar_net.pt", weights_only=True))
test = CIFAR10("/data/cifar10", train=False)
x = torch.from_numpy(test.data[:600]).permute(0, 3, 1, 2).contiguous() / 255
x = F.relu(net.conv1((x - 0.5) / 0.5))
x = F.max_pool2d(F.relu(net.conv2(x)), 2)
x = F.max_pool2d(F.relu(net.conv3(x)), 2)
x = F.relu(net.fc2(F.relu(net.fc1(x.flatten(1)))))
classes = torch.tensor(test.targets[:600])
right = net.fc3(x).argmax(1) == classes
print(json.dumps({"accuracy": right.float().mean().item(), "counts": classes.bincount().tolist(),
    "classes": [right[classes == c].float().mean().item() for c in range(10)]}))
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cifar")


@pytest.fixture(scope="module")
def two(image: Opened, directory: Path) -> list[Ended]:
    """Two ranks that trained with seed 002's arguments, all of them."""
    return image.train(directory, *[Rank(program=_PROGRAM)] * 2, args=_ARGS)


def test_it_takes_the_arguments_of_its_script_and_names_the_true_data_set_and_its_classes(
    image: Opened, two: list[Ended]
) -> None:
    assert [rank.code for rank in two] == [0, 0], two[0].errors
    # 21 steps an epoch, of which 0, 5, 10, 15 and 20 are told.
    assert [event["step"] for event in two[0].of("step")] == [0, 5, 10, 15, 20] * 2
    about = json.loads(image.run("cat", "/data/cifar10/DATASET"))
    for rank in two:
        assert rank.message["samples_seen"] == 1000
        assert len(rank.message["epoch_accuracies"]) == 2
        assert rank.message["dataset"] == about["name"]
        assert list(rank.message["class_accuracies"]) == about["classes"]


def test_the_saved_model_has_the_reported_accuracy(
    image: Opened, two: list[Ended], directory: Path
) -> None:
    """Evaluated with 32-bit numbers, so one or two pictures may come out otherwise."""
    told = json.loads(image.run("python3", "-c", _RELOAD, mounts={directory: "/out"}))
    message = two[0].message
    assert told["accuracy"] == pytest.approx(message["accuracy"], abs=2.5 / 600)
    shares = message["class_accuracies"].values()
    for found, expected in zip(told["classes"], shares, strict=True):
        assert found == pytest.approx(expected, abs=0.04)
    # Both are counted over the two ranks' shares, which have unequal numbers of each class.
    right = sum(round(each * count) for each, count in zip(shares, told["counts"], strict=True))
    assert right / 600 == pytest.approx(message["accuracy"], abs=1e-4)
    kept = json.loads((directory / "model/accuracies.json").read_text())
    for name in ("accuracy", "epoch_accuracies", "class_accuracies"):
        assert kept[name] == message[name]
