"""The example of a plain script made tracked and elastic, run as real processes in the image."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT
from tests.trainer.conftest import RUNNERS, Opened, free_port

_EXAMPLES = CHECKOUT / "examples/tracked"
_SAMPLES = 6000
_ARGUMENTS = ("--limit", str(_SAMPLES), "--epochs", "1")
_TWO_PLAIN = """
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port OMP_NUM_THREADS=1 \
        TERMINATION_LOG=/out/$rank.message \
        timeout 600 python3 /examples/plain.py "$@" > /out/$rank.out &
    pids="$pids $!"
done
for pid in $pids; do wait $pid || exit; done
"""


def test_the_plain_script_trains_in_two_processes(image: Opened, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for rank in (0, 1):
        (tmp_path / f"{rank}.message").touch()
        (tmp_path / f"{rank}.message").chmod(0o666)
    mounts = {_EXAMPLES: "/examples", tmp_path: "/out"}
    arguments = (*_ARGUMENTS[:2], "--epochs", "2")
    image.run("env", f"port={free_port()}", "sh", "-c", _TWO_PLAIN, "sh", *arguments, mounts=mounts)
    for rank in (0, 1):
        events = map(json.loads, (tmp_path / f"{rank}.out").read_text().splitlines())
        losses = [event["metrics"]["loss"] for event in events]
        message = json.loads((tmp_path / f"{rank}.message").read_text())
        assert losses[1] < losses[0]
        assert message == {
            "rank": rank, "dataset": "mnist", "metrics": {"loss": losses[1]},
            "epoch_metrics": {"loss": losses},
        }  # fmt: skip


class Workers:
    """Two workers of the elastic script, and what they left behind."""

    def __init__(
        self,
        image: Opened,
        directory: Path,
        *blows: dict[str, Any],
        arguments: tuple[str, ...] = _ARGUMENTS,
    ) -> None:
        directory.chmod(0o777)
        program = ["/examples/tracked_elastic.py", *arguments]
        plan = {
            "program": program,
            "workers": 2,
            "nodes": "1:2",
            "host": "127.0.0.1",
            "blows": blows,
            "env": {"OMP_NUM_THREADS": "1", "SLIPWAY_RUN_ID": "run-1"},
        }
        (directory / "plan.json").write_text(json.dumps(plan))
        for life in ("0.0", "1.0", "0.1"):
            (directory / f"outputs-{life}").mkdir()
            (directory / f"outputs-{life}").chmod(0o777)
        mounts = {directory: "/out", **RUNNERS, _EXAMPLES: "/examples"}
        image.run("python3", "/elastic_ranks.py", "/out/plan.json", mounts=mounts)
        self.directory = directory
        self.codes: dict[str, int] = json.loads((directory / "ends.json").read_text())["codes"]

    def errors(self, worker: int, life: int = 0) -> str:
        return (self.directory / f"{worker}.{life}.err").read_text()

    def message(self, worker: int, life: int = 0) -> dict[str, Any]:
        text = (self.directory / f"{worker}.{life}.termination").read_text()
        message: dict[str, Any] = json.loads(text)
        return message

    def events(self, worker: int, event: str, life: int = 0) -> list[dict[str, Any]]:
        lines = (self.directory / f"{worker}.{life}.out").read_text().splitlines()
        return [each for line in lines if (each := json.loads(line))["event"] == event]


@pytest.fixture(scope="module")
def undisturbed(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Workers:
    return Workers(image, tmp_path_factory.mktemp("undisturbed"))


def test_the_tracked_script_reports_its_accuracy_and_samples(undisturbed: Workers) -> None:
    assert undisturbed.codes == {"0.0": 0, "1.0": 0}, undisturbed.errors(0)
    messages = [undisturbed.message(worker) for worker in (0, 1)]
    assert sorted(message["rank"] for message in messages) == [0, 1]
    assert sum(message["samples_seen"] for message in messages) == _SAMPLES
    for worker, message in enumerate(messages):
        [epoch] = undisturbed.events(worker, "epoch")
        [validation] = undisturbed.events(worker, "validation")
        assert message["accuracy"] == epoch["accuracy"] == validation["accuracy"]
        assert message["accuracy"] == messages[0]["accuracy"] > 0.3
        assert message["top5_accuracy"] > message["accuracy"]
        assert message["total_samples_seen"] == _SAMPLES
        assert message["world_size"] == 2
        assert epoch["samples"] == message["samples_seen"]
        assert epoch["run_id"] == "run-1"
        assert epoch["seconds_in"].keys() == {"data", "forward", "backward", "optimizer"}
        assert undisturbed.events(worker, "step")


def test_the_worker_of_rank_0_saves_the_model(undisturbed: Workers) -> None:
    models = list(undisturbed.directory.glob("outputs-*/model.pt"))
    [worker] = [number for number in (0, 1) if undisturbed.message(number)["rank"] == 0]
    assert models == [undisturbed.directory / f"outputs-{worker}.0/model.pt"]


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.long
def test_when_one_is_killed_the_other_trains_on_every_sample_once(
    image: Opened, tmp_path: Path, undisturbed: Workers, lost: int
) -> None:
    kill = {"worker": lost, "signal": signal.SIGKILL, "step": 20, "replace": None}
    workers, left = Workers(image, tmp_path, kill), 1 - lost
    assert workers.codes == {f"{lost}.0": -signal.SIGKILL, f"{left}.0": 0}, workers.errors(left)
    [ledger] = workers.events(left, "ledger")
    assert (ledger["counted_once"], ledger["missing"], ledger["repeated"]) == (_SAMPLES, 0, 0)
    message = workers.message(left)
    assert message["rank"] == 0
    assert message["world_size"] == 1
    assert message["total_samples_seen"] == _SAMPLES
    assert _SAMPLES / 2 < message["samples_seen"] < _SAMPLES
    # 6,000 samples are the very beginning, where a step more counts for points.
    before = undisturbed.message(0)["accuracy"]
    assert message["accuracy"] == pytest.approx(before, abs=0.2)
    assert (tmp_path / f"outputs-{left}.0/model.pt").exists()


@pytest.mark.long
def test_a_replacement_reports_the_results_of_the_whole_job(image: Opened, tmp_path: Path) -> None:
    # Three epochs or so until the goal; the replacement is there from the second one on.
    arguments = ("--limit", "12000", "--batch-size", "128", "--epochs", "10")
    kill = {"worker": 0, "signal": signal.SIGKILL, "step": 20, "replace": 0}
    workers = Workers(image, tmp_path, kill, arguments=arguments)
    assert workers.codes == {"0.0": -signal.SIGKILL, "1.0": 0, "0.1": 0}, workers.errors(0, 1)
    stayed, came = workers.message(1), workers.message(0, 1)
    assert sorted(message["rank"] for message in (stayed, came)) == [0, 1]
    epochs = workers.events(1, "epoch")
    for message in (stayed, came):
        assert message["goal_reached"]
        assert message["epoch_accuracies"] == [epoch["accuracy"] for epoch in epochs]
        assert message["total_samples_seen"] == 12000 * len(epochs)
    assert came["samples_seen"] < stayed["samples_seen"]
    took = stayed["time_to_accuracy_seconds"]
    assert came["time_to_accuracy_seconds"] == pytest.approx(took, abs=0.5)
    told = [epoch["epoch"] for epoch in workers.events(0, "epoch", life=1)]
    assert told == list(range(len(epochs) + 1))[-len(told) :]
