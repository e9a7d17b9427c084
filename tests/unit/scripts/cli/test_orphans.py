"""Language hosts of a killed CLI are ended, those of a living one are not."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scripts.cli.recovery import end_orphans


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A place with programs of the names that count."""
    for name, program in (("pulumi-language-python", "sleep"), ("pulumi", "bash")):
        found = shutil.which(program)
        assert found is not None
        shutil.copy(Path(found).resolve(), tmp_path / name)
    return tmp_path


def test_a_host_without_its_cli_is_ended(checkout: Path) -> None:
    with subprocess.Popen([checkout / "pulumi-language-python", "30"], cwd=checkout) as host:
        assert end_orphans(checkout) == [host.pid]
        assert host.wait(5) == -signal.SIGTERM


def test_a_host_of_another_checkout_is_left_alone(checkout: Path) -> None:
    with subprocess.Popen([checkout / "pulumi-language-python", "30"], cwd="/") as host:
        assert end_orphans(checkout) == []
        host.kill()


def test_a_host_whose_cli_lives_is_left_alone(checkout: Path) -> None:
    script = "./pulumi-language-python 30 & echo; wait"
    with subprocess.Popen(
        [checkout / "pulumi", "-c", script], cwd=checkout, stdout=subprocess.PIPE
    ) as cli:
        assert cli.stdout is not None
        cli.stdout.readline()
        children = Path(f"/proc/{cli.pid}/task/{cli.pid}/children")
        host = Path("/proc", children.read_text().strip())
        deadline = time.monotonic() + 10
        while (host / "exe").readlink().name != "pulumi-language-python":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert end_orphans(checkout) == []
        cli.kill()
        cli.wait()
        (host / "exe").readlink()
        assert end_orphans(checkout) == [int(host.name)]
