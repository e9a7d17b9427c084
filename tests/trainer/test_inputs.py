"""The image's own packages fetch what a job takes from another one, from Azure's emulator."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.trainer import azurite
from tests.trainer.azurite import Storage
from tests.trainer.conftest import Opened

# More than one read of the fetcher's.
_MODEL = bytes(range(256)) * 2**16
_LEAVE = """
import fsspec, sys
store = fsspec.filesystem("abfs")
store.mkdir("results")
store.put_file(sys.argv[1], "results/run-1/model.pt")
"""


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """Azure's emulator with a model that another job left there."""
    directory = tmp_path_factory.mktemp("storage")
    model = directory / "model.pt"
    model.write_bytes(_MODEL)
    with azurite.running(directory) as storage:
        variables = {
            "PATH": os.environ["PATH"],
            "AZURE_STORAGE_CONNECTION_STRING": storage.connection_string,
        }
        command = [sys.executable, "-c", _LEAVE, str(model)]
        subprocess.run(command, env=variables, check=True)
        yield storage


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A directory that the image's user may write to."""
    directory = tmp_path / "out"
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "termination-log").touch()
    (directory / "termination-log").chmod(0o666)
    return directory


def fetch(image: Opened, storage: Storage, directory: Path, digest: str) -> str:
    """Fetch the model as a job's pod does, into `directory`; return what was said."""
    wanted = {
        "name": "model",
        "job": "train",
        "artifact": "model.pt",
        "path": "/out/inputs/model/model.pt",
        "url": "abfs://results/run-1/model.pt",
        "sha256": digest,
    }
    return image.run(
        "env",
        f"AZURE_STORAGE_CONNECTION_STRING={storage.connection_string}",
        "TERMINATION_LOG=/out/termination-log",
        "sh",
        "-c",
        'python3 -m slipway_trainer.inputs "$1" 2>&1; echo "code $?"',
        "sh",
        json.dumps(wanted),
        mounts={directory: "/out"},
    )


def test_an_input_from_blob_storage_is_what_the_other_job_left(
    image: Opened, storage: Storage, out: Path
) -> None:
    said = fetch(image, storage, out, sha256(_MODEL).hexdigest())
    assert said.splitlines()[-1] == "code 0", said
    assert (out / "inputs/model/model.pt").read_bytes() == _MODEL


def test_an_input_that_was_written_over_ends_the_container_with_the_reason(
    image: Opened, storage: Storage, out: Path
) -> None:
    said = fetch(image, storage, out, sha256(b"before").hexdigest())
    assert said.splitlines()[-1] == "code 1", said
    error = json.loads((out / "termination-log").read_text())["error"]
    assert error in said
    assert error.startswith("input model: artifact model.pt from job train was changed")
    assert "Traceback" not in said
    assert list((out / "inputs/model").iterdir()) == []


def test_the_example_finds_out_what_the_training_found(image: Opened, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "termination-log").touch()
    (tmp_path / "termination-log").chmod(0o666)
    train = "python3 -m slipway_trainer.mnist --no-cuda --limit-train 2000 --output-dir /out"
    image.run(*train.split(), mounts={tmp_path: "/out"})
    variables = ("SLIPWAY_INPUT_MODEL=/out/mnist_cnn.pt", "TERMINATION_LOG=/out/termination-log")
    mounts = {tmp_path: "/out", CHECKOUT / "examples/evaluate": "/examples"}
    image.run("env", *variables, "python3", "/examples/evaluate.py", mounts=mounts)
    told = json.loads((tmp_path / "termination-log").read_text())
    trained = json.loads((tmp_path / "accuracies.json").read_text())
    # In another memory layout a sum is rounded otherwise, and one picture of 10,000 may tip over.
    assert told["accuracy"] == pytest.approx(trained["accuracy"], abs=1e-3)
    assert told["accuracy"] > 0.5
    assert told["top5_accuracy"] == pytest.approx(trained["top5_accuracy"], abs=1e-3)
    assert len(told["class_accuracies"]) == 10
    assert told["dataset"] == "mnist"
    assert "loss" not in told
