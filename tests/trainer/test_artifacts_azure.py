"""A program's files go to Azure Blob Storage, here to Azure's own emulator of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT
from tests.trainer import azurite
from tests.trainer.azurite import Storage
from tests.trainer.conftest import Opened
from tests.trainer.stores import ODD_NAMES

_LIMIT_SECONDS = 300
# More than one block of an upload.
_MODEL = bytes(range(256)) * 2**16
_MAKE_CONTAINER = "import fsspec; fsspec.filesystem('abfs').mkdir('results')"
_READ = """
import hashlib, json, sys, fsspec
store = fsspec.filesystem("abfs")
read = {path: hashlib.sha256(store.cat_file(path)).hexdigest() for path in store.find(sys.argv[1])}
print(json.dumps(read))
"""
_SYNC = """
import pathlib, sys
from slipway import events
from slipway_trainer.agent import artifacts
artifacts.LIMIT_SECONDS = 3
artifacts.sync(pathlib.Path(sys.argv[1]), sys.argv[2], events.Events(0))
"""

_LEFT = ("artifacts.json", "model.pt")
_KEEP = """
import io, json, pathlib, sys, tarfile
from slipway import events
from slipway_trainer.agent import artifacts, tar
place = "abfs://results/slipway/outputs/mine"
for run, last, is_success in (("run-1", None, 1), ("run-2", "run-1", 1), ("run-3", "run-2", 0)):
    artifacts.reach(place)
    artifacts.sync(pathlib.Path(sys.argv[1]), f"{place}/{run}", events.Events(0))
    artifacts.prune(place, run, last, is_success=is_success)
sent = io.BytesIO()
tar.write(f"{place}/run-2", sent)
sent.seek(0)
print(json.dumps(tarfile.open(fileobj=sent).getnames()), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """Azure's emulator with the container that most programs send their files to."""
    with running(tmp_path_factory.mktemp("storage")) as storage:
        yield storage


@contextmanager
def running(directory: Path) -> Iterator[Storage]:
    with azurite.running(directory) as storage:
        (directory / "maker").mkdir()
        made = Python(directory / "maker", storage.connection_string).run("-c", _MAKE_CONTAINER)
        assert made.returncode == 0, made.stderr
        yield storage


@dataclass
class Python:
    """Python programs that reach the storage, as a job's container does by its variables."""

    directory: Path
    connection_string: str
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.directory / "termination-log"
        self.log.touch()
        (self.directory / "outputs").mkdir()

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python with these arguments."""
        return subprocess.run(
            [sys.executable, *arguments],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(CHECKOUT / "images/trainer"),
                "AZURE_STORAGE_CONNECTION_STRING": self.connection_string,
                "SLIPWAY_OUTPUT_DIR": str(self.directory / "outputs"),
                "SLIPWAY_OUTPUTS": "abfs://results/jobs",
                "SLIPWAY_RUN_ID": "run-1",
                "TERMINATION_LOG": str(self.log),
                **variables,
            },
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )

    def train(self, **variables: str) -> int:
        """Run a program that leaves a model and a log; return the exit code."""
        (self.directory / "outputs/logs").mkdir(parents=True)
        (self.directory / "outputs/model.pt").write_bytes(_MODEL)
        (self.directory / "outputs/logs/0.txt").write_text("trained")
        for name in ODD_NAMES:
            (self.directory / "outputs" / name).write_text(name)
        program = self.directory / "program.py"
        program.write_text("print('done')")
        launch = ("-m", "slipway_trainer.launch", "--", str(program))
        return self.run(*launch, **variables).returncode

    @property
    def message(self) -> dict[str, Any]:
        """The termination message."""
        message: dict[str, Any] = json.loads(self.log.read_text())
        return message


def test_what_arrives_in_blob_storage_is_what_was_sent(storage: Storage, tmp_path: Path) -> None:
    """Files sent to abfs://, s3:// and gs:// URLs arrive unchanged.

    A URL that does not exist fails the job with the reason.
    """
    python = Python(tmp_path, storage.connection_string)
    assert python.train() == 0, python.message
    read = json.loads(python.run("-c", _READ, "results/jobs/run-1").stdout)
    sent = python.message["artifacts"]
    assert read["results/jobs/run-1/model.pt"] == sha256(_MODEL).hexdigest()
    assert read == {
        entry["url"].removeprefix("abfs://"): entry["sha256"] for entry in sent.values()
    }
    assert set(sent) == {"artifacts.json", "logs/0.txt", "model.pt", *ODD_NAMES}


def test_of_a_jobs_runs_the_last_and_the_last_that_succeeded_stay_and_can_be_read(
    storage: Storage, tmp_path: Path
) -> None:
    python = Python(tmp_path, storage.connection_string)
    (tmp_path / "outputs/model.pt").write_bytes(_MODEL)
    done = python.run("-c", _KEEP, str(tmp_path / "outputs"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == ["artifacts.json", "model.pt"]
    read = json.loads(python.run("-c", _READ, "results/slipway").stdout)
    place = "results/slipway/outputs/mine"
    files = {f"{place}/{run}/{name}" for run in ("run-2", "run-3") for name in _LEFT}
    assert read.keys() == {f"{place}/run-2/.slipway-ended", *files}


@pytest.mark.long
def test_the_images_own_packages_send_it_as_well(
    image: Opened, storage: Storage, tmp_path: Path
) -> None:
    python = Python(tmp_path, storage.connection_string)
    tmp_path.chmod(0o777)
    program = "import os; open(os.environ['SLIPWAY_OUTPUT_DIR'] + '/model.pt', 'wb').write(b'1')"
    (tmp_path / "program.py").write_text(program)
    variables = (
        f"AZURE_STORAGE_CONNECTION_STRING={storage.connection_string}",
        "SLIPWAY_OUTPUTS=abfs://results",
        "SLIPWAY_OUTPUT_DIR=/tmp/outputs",
    )
    launch = ("python3", "-m", "slipway_trainer.launch", "--", "/out/program.py")
    image.run("env", *variables, *launch, mounts={tmp_path: "/out"})
    read = json.loads(python.run("-c", _READ, "results").stdout)
    assert read["results/model.pt"] == sha256(b"1").hexdigest()


def test_a_missing_container_fails_the_job_with_the_reason(
    storage: Storage, tmp_path: Path
) -> None:
    python = Python(tmp_path, storage.connection_string)
    assert python.train(SLIPWAY_OUTPUTS="abfs://missing/jobs") == 1
    assert "No such container" in python.message["error"]
    assert "abfs://missing/jobs" in python.message["error"]


def test_a_wrong_key_fails_the_job_and_is_not_shown(storage: Storage, tmp_path: Path) -> None:
    wrong = storage.connection_string.replace("AccountKey=", "AccountKey=AAAA")
    python = Python(tmp_path, wrong)
    assert python.train() == 1
    assert "AuthorizationFailure" in python.message["error"]
    assert "AAAA" not in python.log.read_text()


def test_a_storage_that_is_gone_is_not_waited_for_beyond_the_limit(tmp_path: Path) -> None:
    with running(tmp_path) as storage:
        storage.process.kill()
        python = Python(tmp_path, storage.connection_string)
        (tmp_path / "outputs/model.pt").write_bytes(_MODEL)
        done = python.run("-c", _SYNC, str(tmp_path / "outputs"), "abfs://results/run-1")
    assert "TimeoutError: copying 1 files to abfs://results/run-1 did not finish" in done.stderr
