"""The example with FSDP2 and sharded checkpoints, run as real processes in the image."""

from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.trainer.conftest import Ended, Opened

_EXAMPLE = CHECKOUT / "examples/lm-fsdp"
_EVERY, _STEPS, _STARTS = 4, 16, 100
_SMALL = (
    "--width", "32", "--layers", "1", "--context", "16", "--batch-size", "12",
    "--log-every", "1", "--save-every", str(_EVERY),
)  # fmt: skip
# It writes what it has loaded; with KILL_AT it dies while it writes the checkpoint of that step.
_DISTURBED = """
import os, runpy, signal, sys, time
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict

set_state_dict, write_data = state_dict.set_state_dict, dcp.FileSystemWriter.write_data

def set_and_write(model, optimizer, **states):
    set_state_dict(model, optimizer, **states)
    model, optimizer = state_dict.get_state_dict(model, optimizer)
    dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id="/out/loaded")

def write_and_die(self, plan, planner):
    written = write_data(self, plan, planner)
    if self.path.name == os.environ.get("KILL_AT"):
        time.sleep(1)  # until the other rank has written, too
        os.kill(os.getpid(), signal.SIGKILL)
    return written

state_dict.set_state_dict, dcp.FileSystemWriter.write_data = set_and_write, write_and_die
sys.argv = ["train.py", *sys.argv[1:]]
runpy.run_path("/example/train.py", run_name="__main__")
"""
# Parameters and optimizer state, whole, by name: a line for each checkpoint.
_DIGESTS = """
import hashlib, sys
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

def lines(name, value):
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        return [each for key in sorted(value) for each in lines(f"{name}.{key}", value[key])]
    if isinstance(value, torch.Tensor):
        value = hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()
    return [f"{name} {value}"]

for path in sys.argv[1:]:
    dcp_to_torch_save(path, "/tmp/whole.pt")
    whole = lines("", torch.load("/tmp/whole.pt"))
    assert any("exp_avg_sq" in line for line in whole) and len(whole) > 60, whole
    print(hashlib.sha256(chr(10).join(whole).encode()).hexdigest())
"""


def train(
    image: Opened, out: Path, *program: str, ranks: int = 2, keep: int = 2
) -> dict[int, float]:
    """Train with so many ranks, which all succeed; return the loss of each step."""
    ended = start(image, out, *program, ranks=ranks, keep=keep)
    assert [rank.code for rank in ended] == [0] * ranks, ended[0].errors
    return {event["step"]: event["metrics"]["loss"] for event in ended[0].events}


def start(
    image: Opened,
    out: Path,
    checkpoints: str,
    program: str,
    *arguments: str,
    ranks: int = 2,
    keep: int = 2,
    kill_at: str = "",
) -> list[Ended]:
    """Start ranks of a program with a directory for checkpoints; return how they ended."""
    env = {
        "SLIPWAY_CHECKPOINT_DIR": f"/out/{checkpoints}", "SLIPWAY_CHECKPOINT_KEEP": keep,
        "KILL_AT": kill_at, "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    command = ("python3", program, *_SMALL, *arguments)
    return image.pods(out, *command, ranks=ranks, env=env, more={_EXAMPLE: "/example"})


def digests(image: Opened, out: Path, *checkpoints: str) -> list[str]:
    paths = [f"/out/{each}" for each in checkpoints]
    return image.run("python3", "-c", _DIGESTS, *paths, mounts={out: "/out"}).split()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the ranks of all tests here share."""
    directory = tmp_path_factory.mktemp("lm")
    (directory / "disturbed.py").write_text(_DISTURBED)
    return directory


@pytest.fixture(scope="module")
def undisturbed(image: Opened, out: Path) -> dict[int, float]:
    """The losses of a run on two ranks that keeps each checkpoint in `undisturbed`."""
    program = ("/example/train.py", "--steps", str(_STEPS))
    losses = train(image, out, "undisturbed", *program, keep=9)
    assert "Warning" not in (out / "0.err").read_text()
    assert list(losses) == list(range(1, _STEPS + 1))
    return losses


def test_a_run_that_is_killed_while_it_saves_ends_with_the_bytes_of_an_undisturbed_one(
    image: Opened, out: Path, undisturbed: dict[int, float]
) -> None:
    steps = ("--steps", str(_STEPS))
    ends = start(image, out, "killed", "/out/disturbed.py", *steps, kill_at="8")
    assert 0 not in {rank.code for rank in ends}
    left = sorted(path.name for path in (out / "killed/8").iterdir())
    assert left == ["__0_0.distcp", "__1_0.distcp"]
    losses = train(image, out, "killed", "/example/train.py", *steps)
    assert losses == {step: loss for step, loss in undisturbed.items() if step > _EVERY}
    assert {path.name for path in (out / "killed").iterdir()} == {"12", "16"}
    before, after = digests(image, out, "undisturbed/16", "killed/16")
    assert after == before


@pytest.mark.long
def test_a_checkpoint_of_two_ranks_is_gone_on_from_on_three_and_theirs_on_two(
    image: Opened, out: Path, undisturbed: dict[int, float]
) -> None:
    # That of step 12 is not complete.
    copy = "mkdir $1 && cp -r undisturbed/8 undisturbed/12 $1 && rm $1/12/__1_0.distcp"
    image.run("sh", "-c", f"cd /out && {copy}", "sh", "resharded", mounts={out: "/out"})
    losses: dict[int, float] = {}
    for ranks, steps in ((3, 12), (2, 16)):
        program = ("/out/disturbed.py", "--steps", str(steps))
        losses |= train(image, out, "resharded", *program, ranks=ranks, keep=9)
        (out / "loaded").rename(out / f"loaded-{ranks}")
    states = ("resharded/8", "loaded-3", "resharded/12", "loaded-2")
    saved_by_2, loaded_by_3, saved_by_3, loaded_by_2 = digests(image, out, *states)
    assert loaded_by_3 == saved_by_2 != saved_by_3 == loaded_by_2
    # The same batches, summed in another order.
    expected = {step: loss for step, loss in undisturbed.items() if step > 8}
    assert losses == pytest.approx(expected, rel=1e-4)


@pytest.mark.long
def test_two_ranks_always_come_to_their_end(image: Opened, out: Path) -> None:
    for number in range(_STARTS):
        often = ("--save-every", "1", "--steps", "2")
        ends = start(image, out, f"start-{number}", "/example/train.py", *often)
        assert [rank.code for rank in ends] == [0, 0], f"{number}: {ends[0].errors}"
