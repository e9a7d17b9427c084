"""Whether ranks trained together is found out in their processes, whatever they train with.

Two processes with the variables of two pods take each way of scripts/worlds.py.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from images.build.trainer import trainer
from slipway.worlds import apart
from tests.trainer.conftest import Opened, free_port, installed, opened
from tests.trainer.test_frameworks import _LOCK

_SCRIPTS = Path(__file__).with_name("scripts")
_TOGETHER, _APART, _PERHAPS, _NOT_JUDGED = "together", "apart", "perhaps", "not judged"
_WAYS = {
    "ddp": _TOGETHER,
    "accumulated": _TOGETHER,
    "summed_gradients": _TOGETHER,
    "fsdp1": _TOGETHER,
    "fsdp2": _TOGETHER,
    "tensor_parallel": _TOGETHER,
    "averaged_weights": _PERHAPS,
    "not_wrapped_with_metrics": _PERHAPS,
    "no_group": _APART,
    "not_wrapped": _APART,
    "no_training": _NOT_JUDGED,
    "spawned": _NOT_JUDGED,
}
# With what they need they train together: test_frameworks.py.
_FRAMEWORKS = {"lightning_without_num_nodes": _APART, "accelerate_without_its_variable": _APART}
# FSDP2 trains on CPUs since torch 2.7.
_OLD = {name: verdict for name, verdict in _WAYS.items() if name != "fsdp2"}
_VARIABLES = {
    "SLIPWAY_MESSAGE_DIR": "/out", "TORCHELASTIC_RUN_ID": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
    "HF_HUB_OFFLINE": 1, "PYTHONPATH": "/opt/slipway:/frameworks",
}  # fmt: skip


def _verdicts(
    image: Opened, directory: Path, ways: Sequence[str], mounts: Mapping[Path, str]
) -> dict[str, str]:
    """Take all of these ways in two pods; return what their notes say of each."""
    env = {**_VARIABLES, "MASTER_PORT": free_port(len(ways))}
    command = ("python3", "/scripts/worlds.py", *ways)
    pods = image.pods(directory, *command, env=env, more={_SCRIPTS: "/scripts", **mounts})
    notes: dict[str, list[list[int]]] = {way: [] for way in ways}
    for pod in pods:
        ends = {each["way"]: each for each in pod.events if "way" in each}
        for way in ways:
            assert ends[way]["code"] == 0, pod.errors[-3000:]
            notes[way] += [each] if (each := ends[way]["note"]) else []
    return {way: _verdict(each) for way, each in notes.items()}


def _verdict(notes: list[list[int]]) -> str:
    if not notes:
        return _NOT_JUDGED
    found = apart(notes)
    return _TOGETHER if found is None else _PERHAPS if found["met"] else _APART


@pytest.mark.long
def test_what_joins_the_ranks_of_a_plain_script_is_seen(image: Opened, tmp_path: Path) -> None:
    assert _verdicts(image, tmp_path, [*_WAYS], {}) == _WAYS


@pytest.mark.long
def test_what_joins_the_ranks_of_a_plain_script_is_seen_on_torch_2_6(tmp_path: Path) -> None:
    with opened(trainer("2.6"), tmp_path) as image:
        assert _verdicts(image, tmp_path / "pods", [*_OLD], {}) == _OLD


@pytest.mark.long
def test_a_framework_that_trains_each_rank_alone_is_seen(image: Opened, tmp_path: Path) -> None:
    packages = {installed(_LOCK): "/frameworks"}
    assert _verdicts(image, tmp_path, [*_FRAMEWORKS], packages) == _FRAMEWORKS
