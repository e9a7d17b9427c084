"""A program tells its numbers with `slipway`, and nothing in there fails it."""

import ast
import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.unit.images.trainer.container import TRAINER, Container, Ended, ended

_ON_USE = {"checkpoint_store": {"torch"}, "worlds": {"torch"}}
"""What a module imports once it is used: who saves a checkpoint, or trains, has torch."""
_TRAINS = """
for epoch, loss in ((1, 0.5), (2, 0.4), (2, 0.31)):
    slipway.log(epoch=epoch, val_loss=loss, lr=0.1)
slipway.log(step=7, speed=100)
slipway.finish(accuracy=0.98, perplexity=12.4)
"""


class Program(Container):
    """A program in a pod."""

    def run(self, text: str, code: int = 0, **variables: str) -> Ended:
        self.environment |= variables
        return ended(self.start("-c", f"import slipway\n{text}"), code)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_numbers_are_events_and_at_the_end_the_result_with_their_history(program: Program) -> None:
    """A program reports numbers of any name from any rank, in a pod and outside."""
    done = program.run(_TRAINS, RANK="0", WORLD_SIZE="2")
    assert done.err == ""
    metrics = {"val_loss": 0.31, "lr": 0.1, "speed": 100, "accuracy": 0.98, "perplexity": 12.4}
    curves = {"val_loss": [0.5, 0.31], "lr": [0.1, 0.1]}
    assert program.message == {"rank": 0, "metrics": metrics, "epoch_metrics": curves}
    first, *_, last = done.events
    assert (first["event"], first["rank"], first["epoch"]) == ("metrics", 0, 1)
    assert first["metrics"] == {"val_loss": 0.5, "lr": 0.1}
    assert (last["step"], last["metrics"]) == (7, {"speed": 100})


def test_without_finish_what_was_logged_is_the_result(program: Program) -> None:
    """Besides what the program itself wrote."""
    program.log.write_text('{"metrics": {"f1": 1}}')
    assert program.run("slipway.log(epoch=1, val_loss=0.3)").err == ""
    metrics, curves = {"f1": 1, "val_loss": 0.3}, {"val_loss": [0.3]}
    assert program.message == {"rank": 0, "metrics": metrics, "epoch_metrics": curves}


@pytest.mark.parametrize(
    "text",
    [
        "slipway.finish(b=1); slipway.log(a=2, epoch=1)",
        # As in a process that Python 3.13 forks.
        "import atexit; atexit._clear(); slipway.log(epoch=1, a=2, b=1)",
        "slipway.log({'epoch': 1, 'a': 3, 'b': 1}, 7, a=2)",  # as wandb.log takes them
    ],
)
def test_what_is_logged_in_any_way_is_in_the_result(program: Program, text: str) -> None:
    assert program.run(text).err == ""
    metrics, curves = {"a": 2, "b": 1}, {"a": [2]}
    assert program.message["metrics"] == metrics
    assert program.message["epoch_metrics"].items() >= curves.items()


def test_a_last_figure_that_is_no_number_hides_behind_none_before_it(program: Program) -> None:
    """A gate on it has to miss: the training diverged. A failure leaves no result at all."""
    program.run("slipway.log(epoch=1, loss=0.3); slipway.log(epoch=2, loss=float('nan'))")
    assert math.isnan(program.message["metrics"]["loss"])
    assert math.isnan(program.message["epoch_metrics"]["loss"][-1])
    program.log.write_text("")
    program.run("slipway.log(epoch=1, val_loss=0.3); raise ValueError", 1)
    assert program.log.read_text() == ""


def test_what_finish_is_called_with_later_wins_and_nothing_is_lost(program: Program) -> None:
    """Outside of a pod it works too."""
    twice = "slipway.finish(accuracy=0.5, a=1); slipway.finish(accuracy=0.6, dataset='mine')"
    program.run(twice, RANK="3")
    assert program.message == {"rank": 3, "dataset": "mine", "metrics": {"accuracy": 0.6, "a": 1}}
    program.run("slipway.log(epoch=1, a=2, b=3)")  # another program in the same container
    program.run("slipway.finish(c=4)")
    metrics, curves = {"accuracy": 0.6, "a": 2, "b": 3, "c": 4}, {"a": [2], "b": [3]}
    left = {"rank": 3, "dataset": "mine", "metrics": metrics, "epoch_metrics": curves}
    assert program.message == left
    program.log.unlink()
    done = program.run(_TRAINS)
    assert (done.err, len(done.events)) == ("", 4)
    assert list(program.directory.iterdir()) == []


@pytest.mark.parametrize(("size", "given", "rank"), [(2, "1", 1), (4, "4", 1), (1, "2", 0)])
def test_a_process_that_the_program_started_has_its_rank_in_the_group_of_all(
    program: Program, size: int, given: str, rank: int
) -> None:
    """They have their pod's RANK. Rank 0 alone saves and leaves the pod's result."""
    group = f"is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: {size}"
    text = (
        f"import sys, types; dist = types.SimpleNamespace({group})\n"
        "sys.modules['torch.distributed'] = dist; slipway.checkpoints.stopping.set()\n"
        "slipway.log(saves=int(slipway.due(1))); dist.is_initialized = bool"
    )
    program.environment["SLIPWAY_CHECKPOINT_DIR"] = str(program.directory)
    [event] = program.run(text, RANK="0", WORLD_SIZE=given).events
    assert (event["rank"], event["metrics"]["saves"]) == (rank, rank == 0)
    assert bool(program.message) == (rank == 0)
    program.run(text, SLIPWAY_MESSAGE_DIR=str(program.directory))
    assert (program.directory / f"{rank}.json").exists()


def test_sigterm_ends_the_children_of_a_program_that_saves_at_its_next_step(
    program: Program,
) -> None:
    text = (
        "import multiprocessing as of, time; fork = of.get_context('fork'); begun = fork.Event()\n"
        "child = fork.Process(target=lambda: begun.set() or time.sleep(20)); slipway.due(1)\n"
        "child.start(); begun.wait(); child.terminate(); child.join(); print(child.exitcode)"
    )
    assert program.run(text, SLIPWAY_CHECKPOINT_DIR=str(program.directory)).out == "-15\n"


def test_a_checkpoint_is_due_whichever_steps_a_program_asks_at(program: Program) -> None:
    """Also if it asks twice at one; after a resume the interval goes on."""
    program.environment["SLIPWAY_CHECKPOINT_EVERY"] = "500 steps"
    ask = "print([step for step in steps if slipway.due(step) and slipway.due(step)])\n"
    again = "slipway.checkpoints._store().resumed(1874)\n"
    text = f"steps = range(300, 2000, 300)\n{ask}{again}steps = 1875, 2811, 2812\n{ask}"
    done = program.run(text, SLIPWAY_CHECKPOINT_DIR=str(program.directory))
    assert done.out.splitlines()[::2] == ["[600, 1200, 1500]", "[2811]"]


def test_a_checkpoint_that_fails_leaves_no_part_on_a_full_disk(program: Program) -> None:
    kept = program.directory / "kept"
    text = (
        "import sys, types\ndef save(state, file): file.write(b'part'); raise OSError('full')\n"
        "sys.modules['torch'] = types.SimpleNamespace(save=save); slipway.save({}, step=1)"
    )
    assert "OSError: full" in program.run(text, 1, SLIPWAY_CHECKPOINT_DIR=str(kept)).err
    assert list(kept.iterdir()) == []


def test_of_many_epochs_the_latest_are_kept(program: Program) -> None:
    logs = "for epoch in range(1, 1203): slipway.log(epoch=epoch, a=epoch)\n"
    done = program.run(f"{logs}print(slipway.reporting.logged()['epoch_metrics']['a'][::999])")
    assert "[203, 1202]" in done.out.splitlines()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("slipway.log(epoch=1, a='text', b=1)", "a='text' is ignored"),
        ("slipway.log(epoch=1, b=1, c=True, d=None)", "d=None is ignored"),
        ("class Two:\n  def item(self): raise RuntimeError\nslipway.log(b=1, two=Two())", "two="),
        ("slipway.finish(b=1, dataset=object())", "finish failed with TypeError"),
        ("import os; os.close(1); slipway.log(b=1)", "log failed with OSError"),
        ("import os; os.environ['TERMINATION_LOG'] = '/'; slipway.finish(b=1)", "IsADirectory"),
    ],
)
def test_nothing_that_goes_wrong_fails_the_training(program: Program, text: str, says: str) -> None:
    unflushed = 120 if "os.close(1)" in text else 0  # Python's own
    done = program.run(f"{text}\nimport sys; sys.stderr.write('went on')", unflushed)
    assert says in done.err
    assert "went on" in done.err


def test_it_needs_nothing_but_the_python_that_its_wheel_names(tmp_path: Path) -> None:
    """And the launcher needs Python 3.10, since `make local` starts it in the user's own."""
    command = ("mypy", "--python-version", "3.10", f"--cache-dir={tmp_path}")
    agent = TRAINER / "slipway_trainer/agent"
    subprocess.run([sys.executable, "-m", *command, agent], cwd=CHECKOUT, check=True)
    declared = tomllib.loads((TRAINER / "pyproject.toml").read_text())["project"]
    assert declared["requires-python"] == ">=3.9"
    assert "dependencies" not in declared
    adapters = {"accelerate", "lightning", "pytorch_lightning", "torch", "transformers"}
    known = set(sys.stdlib_module_names) | {"slipway"}
    for path in (TRAINER / "slipway").glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        nodes = [*ast.walk(tree)]
        names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        imported = {name.partition(".")[0] for name in names}
        allowed = adapters if path.stem in adapters else _ON_USE.get(path.stem, set())
        assert imported - known <= allowed, path
