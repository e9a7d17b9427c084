"""Tracked runs, in the trainer's image, with a real MLflow server and one that does not answer."""

import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT, cache_dir
from jobs.model.places import tracking_variables
from tests.trainer.conftest import Ended, Opened, installed

_MLFLOW = CHECKOUT / "images/tracking/requirements.mlflow.lock"
_SINKS = Path(__file__).with_name("sinks.lock")
_RUNNER = Path(__file__).with_name("tracked_pods.py")
_SECONDS_TO_SEND = 10
_SETTINGS = {"workers": 1, "goal": {"a": 1}}
_FACTS = {"revision": "abc-dirty", "image": "localhost/x:1", "settings": _SETTINGS}
_MNIST = (
    *("--", "-m", "slipway_trainer.mnist", "--epochs", "2", "--profile", "--no-cuda"),
    *("--limit-train", "1000", "--limit-test", "1000", "--log-interval", "1"),
    *("--precision", "float32"),
)
# It takes no time itself, so the rest is what tracking adds. It ends when what it awaits is there:
# beside pods that train, and a server that starts, importing a package may take all of the limit.
_SCRIPT = """
import glob, os, pathlib, slipway, time
for epoch in range(1, 4):
    slipway.log(epoch=epoch, val_loss=1 / epoch)
pathlib.Path(os.environ["SLIPWAY_OUTPUT_DIR"], "model.pt").write_bytes(b"weights")
while not all(map(glob.glob, os.environ["AWAIT"].split())):
    time.sleep(0.05)
slipway.finish(accuracy=0.9)
"""
_TRAINED = "/out/mnist-0.end /out/mnist-1.end"


@dataclass(frozen=True)
class Ran:
    """All pods by their names, and all runs of the server by their ids."""

    directory: Path
    pods: Mapping[str, Ended]
    runs: Mapping[str, dict[str, Any]]


def _pod(name: str, args: Sequence[str], kind: str, port: int, **env: str) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}"
    place = {"kind": kind, "url": url, "address": "http://localhost:5000", "experiment": "dev/mine"}
    own = {"SLIPWAY_RUN_ID": f"run-{name}", "AWAIT": _TRAINED, **env}
    variables = {**tracking_variables(place, _FACTS), **own}
    is_early = name in {"late", "down", "hanging"}
    return {"name": name, "args": args, "env": variables, "early": is_early}


@pytest.fixture(scope="module")
def ran(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Two pods that train, and others with a script, whose server comes up after them, or never."""
    directory = tmp_path_factory.mktemp("tracked")
    directory.chmod(0o777)
    (directory / "script.py").write_text(_SCRIPT)
    script = ("--", "/out/script.py")
    ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    mlflow, hanging, down, master = (each.getsockname()[1] for each in ports)
    for each in ports:
        each.close()
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(master)}
    packages = {"PYTHONPATH": "/opt/slipway:/sinks"}
    (directory / "tmp").mkdir(mode=0o777)
    (directory / "tmp").chmod(0o777)
    pods = [
        *(
            _pod(f"mnist-{rank}", _MNIST, "mlflow", mlflow, SLIPWAY_RUN_ID="run-mnist",
                 RANK=str(rank), **world)
            for rank in (0, 1)
        ),
        _pod("down", script, "mlflow", down),
        _pod("hanging", script, "mlflow", hanging),
        _pod("late", ("--processes", "2", *script), "mlflow", mlflow),
        _pod("wandb", script, "wandb", mlflow, **packages, WANDB_MODE="offline", TMPDIR="/out/tmp",
             AWAIT=f"{_TRAINED} /out/tmp/wandb/offline-run-*/*.wandb"),
        _pod("tensorboard", script, "tensorboard", mlflow, **packages,
             AWAIT=f"{_TRAINED} /out/tensorboard.outputs/tensorboard/pod-0/*"),
        _pod("missing", script, "tensorboard", mlflow),
    ]  # fmt: skip
    plan = {"pods": pods, "port": mlflow, "hanging": hanging}
    (directory / "plan.json").write_text(json.dumps(plan))
    compiled = cache_dir() / f"{installed(_MLFLOW).name}.pyc"
    compiled.mkdir(exist_ok=True)
    compiled.chmod(0o777)
    mounts = {
        directory: "/out", installed(_MLFLOW): "/mlflow", installed(_SINKS): "/sinks",
        _RUNNER: "/tracked_pods.py", compiled: "/pyc",
    }  # fmt: skip
    image.run("python3", "/tracked_pods.py", "/out/plan.json", mounts=mounts)
    found = json.loads((directory / "found.json").read_text())
    runs = {run["info"]["run_name"]: run for run in found["runs"]}
    assert len(runs) == len(found["runs"]), "no run is there twice"
    ends = found["ends"]
    trained_at = max(ends[f"mnist-{rank}"]["ended"] for rank in (0, 1))
    ended = {
        name: Ended.read(directory, name, end["code"], end["ended"] - max(end["began"], trained_at))
        for name, end in ends.items()
    }
    return Ran(directory, ended, runs)


@pytest.mark.long
def test_all_ranks_losses_arrive(ran: Ran) -> None:
    """A tracked run has every rank's losses by the step of the complete run."""
    history = ran.runs["run-mnist"]["history"]
    for pod in ("mnist-0", "mnist-1"):
        assert ran.pods[pod].code == 0, ran.pods[pod].errors
        assert ran.pods[pod].of("warning") == []
    steps = [*ran.pods["mnist-0"].of("step"), *ran.pods["mnist-1"].of("step")]
    for rank in (0, 1):
        own = [event for event in steps if event["rank"] == rank]
        sent = [((event["epoch"] - 1) * 8 + event["step"] + 1, event["loss"]) for event in own]
        arrived = [(point["step"], point["value"]) for point in history[f"loss/rank_{rank}"]]
        assert sorted(arrived) == pytest.approx(sent)
        assert [step for step, _ in sent] == list(range(1, 17))
        assert f"seconds_in/backward/rank_{rank}" in history
    accuracies = [event["accuracy"] for event in ran.pods["mnist-0"].of("validation")]
    assert [point["value"] for point in history["accuracy"]] == accuracies
    assert [point["step"] for point in history["accuracy"]] == [8, 16]


def test_a_run_names_what_trained_it_on_what_and_has_its_files(ran: Ran) -> None:
    run = ran.runs["run-mnist"]
    pairs = {
        part: {each["key"]: each["value"] for each in run["data"][part]}
        for part in ("params", "tags")
    }
    params = {"epochs": "2", "lr": "0.01", "job.workers": "1", "job.goal.a": "1"}
    assert pairs["params"].items() >= params.items()
    assert pairs["tags"].items() >= {
        "slipway.run_id": "run-mnist", "slipway.revision": "abc-dirty", "slipway.world_size": "2",
        "slipway.image": "localhost/x:1", "slipway.backend": "gloo", "slipway.dataset": "mnist",
        "slipway.state": "Succeeded", "mlflow.source.git.commit": "abc",
    }.items()  # fmt: skip
    assert (run["experiment"], run["info"]["status"]) == ("dev/mine", "FINISHED")
    [data] = run["inputs"]["dataset_inputs"]
    digest = json.loads(data["dataset"]["source"])["sha256"]
    assert data["dataset"]["name"] == "mnist"
    assert len(digest) == 64
    assert digest.startswith(data["dataset"]["digest"])
    paths = {each["path"] for each in run["files"]}
    assert paths == {"mnist_cnn.pt", "accuracies.json", "predictions.html", "profile"}
    info = run["info"]
    page = f"http://localhost:5000/#/experiments/{info['experiment_id']}/runs/{info['run_id']}"
    for pod in ("mnist-0", "mnist-1"):
        assert ran.pods[pod].message["tracking"] == page


def test_a_demo_leaves_a_page_with_its_confusion_matrix_and_pictures_wrong_ones_first(
    ran: Ran,
) -> None:
    page = (ran.directory / "mnist-0.outputs/predictions.html").read_text()
    matrix, samples = (
        [re.findall(r"<td[^>]*>([^<]*)", row) for row in table.split("<tr>")[2:]]
        for table in page.split("<table>")[1:]
    )
    accuracy = ran.pods["mnist-0"].message["accuracy"]
    counts = [[int(cell) for cell in row] for row in matrix]
    assert (len(counts), sum(map(sum, counts))) == (10, 1000), "of both ranks' shares"
    assert sum(row[n] for n, row in enumerate(counts)) / 1000 == pytest.approx(accuracy, abs=0.0011)
    assert page.count("data:image/png;base64,") == len(samples) == 20
    verdicts = [row[-1] for row in samples]
    assert verdicts == sorted(verdicts, reverse=True)
    assert verdicts[0] == "wrong"
    for _, actual, predicted, _, verdict in samples:
        assert (actual == predicted) == (verdict == "right")
    assert not (ran.directory / "mnist-1.outputs/predictions.html").exists()


def test_what_a_script_logs_arrives_though_the_server_came_up_later(ran: Ran) -> None:
    """Of both processes of its pod, under torchrun."""
    assert ran.pods["late"].code == 0, ran.pods["late"].errors
    assert ran.pods["late"].of("warning") == []
    run = ran.runs["run-late"]
    values = {
        name: [(each["step"], each["value"]) for each in points]
        for name, points in run["history"].items()
    }
    for name in ("val_loss", "val_loss/rank_1"):
        assert values[name] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert values["accuracy"] == [(3, 0.9)]
    assert [each["path"] for each in run["files"]] == ["model.pt"]


@pytest.mark.parametrize("name", ["down", "hanging"])
def test_a_server_that_does_not_answer_costs_ten_seconds_and_what_is_lost_is_named(
    ran: Ran, name: str
) -> None:
    """Tracking never fails a job, nor delays it by more than ten seconds."""
    pod = ran.pods[name]
    assert pod.code == 0, pod.errors
    [warning] = pod.of("warning")
    assert "the run, 3 events" in warning["warning"]
    assert "did not reach http://127.0.0.1" in warning["warning"]
    assert pod.message["metrics"] == {"val_loss": pytest.approx(1 / 3), "accuracy": 0.9}
    assert "tracking" not in pod.message
    assert pod.seconds < _SECONDS_TO_SEND + 5


def test_wandb_and_tensorboard_are_written_with_their_own_packages(ran: Ran) -> None:
    for name in ("wandb", "tensorboard"):
        assert ran.pods[name].code == 0, ran.pods[name].errors
        assert ran.pods[name].of("warning") == []
    [events] = (ran.directory / "tensorboard.outputs/tensorboard/pod-0").iterdir()
    [offline] = (ran.directory / "tmp/wandb").glob("offline-run-*/*.wandb")
    for file in (events, offline):
        assert b"val_loss" in file.read_bytes()
    [missing] = ran.pods["missing"].of("warning")
    assert ran.pods["missing"].code == 0
    assert "add tensorboardX to the job's `requirements`" in missing["warning"]
