"""What a stack asks for is read and judged before anything is made."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from clusters.nodes import Capacity
from jobs import config
from jobs.config import CATALOG, JobsConfig
from jobs.rules.rule import Surroundings

KEY = "slipway:jobs"
SMALL = Surroundings(0, Capacity(Decimal(2), 6 * 2**30, 0, 1))
LARGE = Surroundings(8, Capacity(Decimal(64), 2**40, 8, 4))


def read(section: dict[str, Any], around: Surroundings = LARGE) -> JobsConfig:
    return config.read(section, KEY, around)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    return tmp_path


def test_without_gpus_the_nccl_entries_are_skipped_with_the_reason() -> None:
    found = read({"mnist-gloo": {}}, SMALL)
    assert found.problems == []
    assert found.skipped.keys() == {"mnist-nccl", "cifar-nccl"}
    assert all("this cluster has none" in reason for reason in found.skipped.values())
    assert read({}).skipped == {}, "with GPUs none is"


def test_what_the_cluster_is_too_small_for_is_skipped_too() -> None:
    tiny = Surroundings(0, Capacity(Decimal(1), 2**30, 0, 1))
    assert read({}, tiny).skipped.keys() == CATALOG.keys()


def test_an_entry_that_is_asked_for_by_name_is_refused_and_not_skipped() -> None:
    found = read({"mnist-nccl": {}}, SMALL)
    assert [problem.key for problem in found.problems] == [f"{KEY}.mnist-nccl.backend"]
    assert "mnist-nccl" not in found.skipped
    assert read({"mnist-nccl": {"workers": 999}}, Surroundings()).problems == [], "nothing is known"


def test_a_script_is_read_beside_its_job(root: Path) -> None:
    path = "tests/policy/scripts/plain.py"
    found = read({"mine": {"script": path}})
    assert found.problems == []
    assert found.scripts["mine"].files == {"plain.py": (root / path).read_bytes()}


def test_problems_of_all_jobs_and_kinds_are_reported_together() -> None:
    interface = {"GLOO_SOCKET_IFNAME": "^lo"}
    section = {
        "one": {"script": "tests/nowhere.py", "image": "x", "gangScheduling": True},
        "two": {"script": "tests/nowhere.py", "requirements": "none.txt", "env": interface},
        "three": {"build": {"context": "nowhere"}, "restartPolicy": "ExitCode", "backoffLimit": 1},
    }
    assert {problem.key.removeprefix(f"{KEY}.") for problem in read(section).problems} == {
        *("one.image", "one.gangScheduling"),
        *("two.script", "two.requirements", "two.env.GLOO_SOCKET_IFNAME"),
        *("three.build.context", "three.backoffLimit"),
    }


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"Dockerfile": 'CMD ["python3", "train.py"]'}, False),
        ({"Dockerfile": 'CMD ["torchrun", "train.py"]'}, True),
        ({"Dockerfile": '# torchrun is not used\nCMD ["python3", "train.py"]'}, False),
        ({"own/train.py": "from slipway_trainer import elastic\n"}, True),
        ({"start.sh": "exec torchrun train.py\n"}, True),
        ({"train.py": "import torch\n", ".cache/a.py": "torchrun", "a.txt": "torchrun"}, False),
    ],
)
def test_an_elastic_build_is_searched(checkout: Path, files: dict[str, str], found: bool) -> None:
    for name, text in {"Dockerfile": 'CMD ["./start"]', **files}.items():
        (checkout / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / "own" / name).write_text(f"{text}\n")
    section = {"mine": {"build": {"context": "own"}, "workers": 2, "elastic": {"minReplicas": 1}}}
    refused = [problem.key for problem in read(section).problems]
    assert refused == ([] if found else [f"{KEY}.mine.elastic"])


@pytest.mark.parametrize(("needed", "keys"), [("B", ["a.dependsOn[0]", "b.cpu"]), ("b", ["b.cpu"])])
def test_problems_between_jobs_are_reported_beside_those_within_one(
    needed: str, keys: list[str]
) -> None:
    """A job may need one whose own declaration is wrong."""
    own = {"image": "example.org/mine:1", "command": ["x"]}
    section = {"a": {**own, "dependsOn": [needed]}, "b": {**own, "cpu": "none"}}
    assert sorted(problem.key for problem in read(section).problems) == [f"{KEY}.{k}" for k in keys]


def test_a_name_that_a_job_had_is_no_other_jobs() -> None:
    found = read({"mnist-gloo": {"was": "lm-fsdp"}, "lm-fsdp": {}}).problems
    assert [each.key for each in found] == [f"{KEY}.mnist-gloo.was[0]"]
    twice = {name: {"was": "old"} for name in ("mnist-gloo", "lm-fsdp")}
    assert len(read(twice).problems) == 2
