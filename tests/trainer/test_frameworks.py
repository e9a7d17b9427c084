"""Frameworks that know nothing of Slipway find out who they are, and tell it their numbers.

Two processes with the variables of two pods, in the trainer's image with packages of PyPI's.
"""

from pathlib import Path

import pytest

from core.paths import CHECKOUT
from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.names import RUN_LABEL
from jobs.model.pytorchjob import templates
from jobs.model.submission import Submission
from tests import readme
from tests.trainer.conftest import Ended, Opened, installed

_LOCK = Path(__file__).with_name("frameworks.lock")
_SCRIPTS = Path(__file__).with_name("scripts")
_EXAMPLES = CHECKOUT / "examples"


@pytest.fixture(scope="module")
def packages() -> Path:
    return installed(_LOCK)


def _variables() -> dict[str, str]:
    """Return the variables of a pod, without what Kubernetes itself fills in."""
    job = TrainingJob(name="mine", image="localhost/mine:1", command=("true",), workers=1)
    master = templates(manifest(Submission(job=job, image=job.image)))["master"]
    variables = master["spec"]["containers"][0]["env"]
    run_id = f"metadata.labels['{RUN_LABEL}']"
    for each in variables:
        assert "value" in each or each["valueFrom"]["fieldRef"]["fieldPath"] == run_id
    return {each["name"]: each.get("value", "run-1") for each in variables}


_JOINED = {"rank": 1, "trained": [[1, 2, 0]]}
"""What rank 1 leaves of its own: that it trained with rank 0."""
_LAUNCHER = ("python3", "-m", "slipway_trainer.launch", "--")


def _run(image: Opened, directory: Path, packages: Path, *program: str) -> list[Ended]:
    """Run a program in two pods."""
    mounts = {packages: "/frameworks", _SCRIPTS: "/scripts", _EXAMPLES: "/examples"}
    own = {"PYTHONPATH": "/opt/slipway:/frameworks", "HF_HUB_OFFLINE": "1"}
    env = {**own, **_variables(), "SLIPWAY_OUTPUT_DIR": "/out/outputs"}
    pods = image.pods(directory, *_LAUNCHER, *program, env=env, more=mounts)
    assert [pod.code for pod in pods] == [0, 0], pods[0].errors + pods[1].errors
    return pods


@pytest.mark.long
def test_each_pod_is_a_rank_of_its_own_whose_tracked_numbers_are_the_result(
    image: Opened, tmp_path: Path, packages: Path
) -> None:
    pods = _run(image, tmp_path, packages, "/scripts/frameworks_accelerate.py")
    # The sum of 1 and 2.
    found = [{"rank": n, "world": 2, "node": n, "steps": 3} for n in (0, 1)]
    assert [pod.events[-1] for pod in pods] == found
    metrics, history = {"val_loss": 1.5, "accuracy": 0.5}, {"val_loss": [3, 1.5]}
    assert pods[0].message == {"rank": 0, "metrics": metrics, "epoch_metrics": history}
    assert "metrics" not in pods[1].message


def test_the_readmes_two_lines_make_a_plain_lightning_script_a_job(
    image: Opened, tmp_path: Path, packages: Path
) -> None:
    text = (_SCRIPTS / "lightning_plain.py").read_text()
    [taken], [imported, trainer] = readme.difference()
    assert text.count(f"{taken}\n") == 1
    (tmp_path / "train.py").write_text(f"{imported}\n{text.replace(taken, trainer)}")
    first, second = _run(image, tmp_path, packages, "/out/train.py")
    assert second.message == _JOINED, "rank 0 speaks for both, which averaged their gradients"
    assert len(first.message["epoch_metrics"]["val_loss"]) == 3
    assert first.message["metrics"]["accuracy"] > 0.9
    [model] = (tmp_path / "outputs").rglob("*.ckpt")
    # 2,048 samples in batches of 32, shared by two, three times.
    assert "step=96" in model.name


@pytest.mark.parametrize(
    ("example", "arguments", "epochs", "logged"),
    [
        pytest.param(
            "lightning", ("--limit", "6000", "--epochs", "2"), 2,
            {"loss": "loss", "val_loss": "val_loss", "accuracy": "accuracy"},
            id="lightning", marks=pytest.mark.long,
        ),
        pytest.param(
            "transformers", ("--texts", "4000"), 3,
            {"loss": "loss", "val_loss": "eval_loss", "accuracy": "eval_accuracy"},
            id="transformers",
        ),
    ],
)  # fmt: skip
def test_an_example_trains_and_its_numbers_are_the_result(
    image: Opened,
    tmp_path: Path,
    packages: Path,
    example: str,
    arguments: tuple[str, ...],
    epochs: int,
    logged: dict[str, str],
) -> None:
    """What they log is the result, with its history, by an adapter each."""
    program = f"/examples/{example}/train.py"
    first, second = _run(image, tmp_path, packages, program, *arguments)
    assert second.message == _JOINED, "rank 0 speaks for all"
    assert first.message["rank"] == 0
    history = {name: first.message["epoch_metrics"][key] for name, key in logged.items()}
    for values in history.values():
        assert len(values) == epochs
    assert history["loss"][-1] < history["loss"][0]
    assert history["accuracy"][-1] == first.message["metrics"][logged["accuracy"]] >= 0.8
    assert {event["epoch"] for event in first.of("metrics")} == set(range(1, epochs + 1))
    assert second.of("metrics") == []
    assert any(
        (tmp_path / "outputs").rglob("*.safetensors" if example == "transformers" else "*.ckpt")
    )
