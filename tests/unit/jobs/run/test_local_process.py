"""A process is started with what its pod would have, as far as that is here."""

from pathlib import Path
from typing import Any

import pytest

from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.names import RUN_LABEL
from jobs.model.parts import Checkpoint
from jobs.model.places import VOLUME_URL
from jobs.model.pytorchjob import templates
from jobs.model.submission import Submission
from jobs.model.volumes import Script
from jobs.run.local_process import LocalProcess, processes

_PYTHON = "/home/me/env/bin/python3"


def started(**fields: Any) -> tuple[list[LocalProcess], dict[str, Any]]:
    """Return the processes of a job with a script, and its manifest."""
    job = TrainingJob(name="mine", script="train.py", **fields)
    files = Script("mine", "train.py", {"train.py": b""}).mounted
    submission = Submission(job=job, image="", script=files, place=VOLUME_URL)
    document = manifest(submission, labels={RUN_LABEL: "mine-1"})
    return [*processes(job, document, Path("/runs/mine-1"), _PYTHON, 1234)], document


def test_the_variables_are_the_pods_and_the_operators() -> None:
    (first, second), document = started(processes_per_node=2, env={"LEVEL": "3"})
    [container] = templates(document)["worker"]["spec"]["containers"]
    declared = {each["name"] for each in container["env"]}
    assert declared - second.variables.keys() == {"HOME"} - second.variables.keys()
    assert second.variables.items() >= {
        "RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1234",
        "PET_NODE_RANK": "1", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": "1234", "PYTHONUNBUFFERED": "1",
        "SLIPWAY_RUN_ID": "mine-1", "HOSTNAME": "mine-worker-0", "LEVEL": "3",
    }.items()  # fmt: skip
    assert first.variables["RANK"] == "0"


def test_placeholders_and_variables_are_filled_in_and_places_are_those_of_the_replica() -> None:
    shell = 'a >/work/outputs/l --out "/work/outputs" ~/work/outputs /work/outputs2'
    args = ("{rank}", "{hosts}", "{run_id}", "--out=/work/outputs/a", "$(LEVEL)", "$(OTHER)", "$$x")
    (*_, last), _ = started(
        workers=2, args=(*args, shell), env={"LEVEL": "3", "DIR": "/work/outputs"}
    )
    place = "/runs/mine-1/mine-worker-1/work/outputs"
    hosts = "127.0.0.1,127.0.0.1,127.0.0.1"
    shell = f'a >{place}/l --out "{place}" ~/work/outputs /work/outputs2'
    expected = ["2", hosts, "mine-1", f"--out={place}/a", "3", "$(OTHER)", "$$x", shell]
    assert last.command[-len(expected) :] == expected
    assert last.variables["DIR"] == last.variables["SLIPWAY_OUTPUT_DIR"] == place


def test_the_python_that_is_given_is_the_first_on_path_and_the_users_own_variables_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("PYTHONPATH", "/mine"), ("DATA", "/work/outputs"), ("USE_LIBUV", "1")):
        monkeypatch.setenv(name, value)
    [alone], _ = started(workers=0, args=("/work/data", "/data/work/outputs"))
    script = "/runs/mine-1/mine-master-0/opt/script/train.py"
    launcher = [_PYTHON, "-m", "slipway_trainer.launch", "--processes", "1", "--"]
    assert alone.command == [*launcher, script, "/work/data", "/data/work/outputs"]
    assert alone.variables["PATH"].startswith("/runs/mine-1/mine-master-0/bin:/home/me/env/bin:")
    assert alone.variables["PYTHONPATH"].endswith(":/mine")
    [alone], _ = started(workers=0, env={"PYTHONPATH": "src"})
    assert alone.variables["PYTHONPATH"].endswith("/images/trainer:/opt/slipway:src")
    assert (alone.variables["DATA"], alone.variables["USE_LIBUV"]) == ("/work/outputs", "1")


def test_checkpoints_are_where_the_next_run_finds_them_and_files_are_not_copied() -> None:
    [alone], _ = started(workers=0, checkpoint=Checkpoint(every="5 steps"), outputs="s3://bucket")
    directory = alone.variables["SLIPWAY_CHECKPOINT_DIR"]
    assert directory.startswith("/runs/mine-1/mine-master-0/opt/kept/checkpoints/mine/")
    assert alone.variables.keys().isdisjoint({"SLIPWAY_OUTPUTS", "SLIPWAY_KEPT"})


def test_accelerate_is_on_the_cpu_without_gpus() -> None:
    for gpus, expected in ((None, "true"), (1, None)):
        [alone], _ = started(workers=0, gpus=gpus)
        assert alone.variables.get("ACCELERATE_USE_CPU") == expected
