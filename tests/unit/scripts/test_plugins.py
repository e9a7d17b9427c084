"""The starters of Pulumi's plugins run what set-up has provided; azure-native's has a stub."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.unit.shell_program import shell_program

ADDRESS = "127.0.0.1:1"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of nothing but the starters and a Python environment."""
    made = tmp_path / "checkout"
    shell_program(made / ".venv/bin/python", 'echo python "$@"')
    shutil.copytree(CHECKOUT / "scripts/plugins", made / "scripts/plugins")
    return made


def started(checkout: Path, package: str) -> subprocess.CompletedProcess[str]:
    """Run a starter as the engine does; the cache is beside the checkout."""
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(checkout.parent)}
    command = [str(checkout / "scripts/plugins" / f"pulumi-resource-{package}"), ADDRESS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_what_set_up_has_provided_is_started_or_a_stub_or_set_up_is_the_next_step(
    checkout: Path,
) -> None:
    missing = started(checkout, "kubernetes")
    assert missing.returncode == 1
    assert "pulumi-resource-kubernetes is missing; run `make setup` first" in missing.stderr
    stub = f"python -m scripts.azure_native {ADDRESS}\n"
    assert started(checkout, "azure-native").stdout == stub
    for package in ("kubernetes", "azure-native"):
        plugin = checkout.parent / "slipway/bin" / f"pulumi-resource-{package}"
        shell_program(plugin, 'echo real "$@"')
        assert started(checkout, package).stdout == f"real {ADDRESS}\n"


def test_a_kubeconfig_that_the_plugin_leaves_goes_with_the_next_start(checkout: Path) -> None:
    """It writes one at every start, for Helm, and removes none."""
    plugin = checkout.parent / "slipway/bin/pulumi-resource-kubernetes"
    shell_program(plugin, 'echo secret > "$(mktemp "${TMPDIR:-/tmp}/kubeconfigXXXXXX")"')
    for _ in range(3):
        assert started(checkout, "kubernetes").returncode == 0
    directory = checkout.parent / "slipway/kubeconfigs"
    assert len(list(directory.iterdir())) == 1
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_plugin_ends_with_whoever_started_it(checkout: Path) -> None:
    """The engine, which may be killed; itself it would look only every five minutes."""
    plugin = checkout.parent / "slipway/bin/pulumi-resource-kubernetes"
    shell_program(plugin, "echo $$\nexec sleep 60")
    starter = checkout / "scripts/plugins/pulumi-resource-kubernetes"
    engine = f"import subprocess; subprocess.run(['{starter}', '{ADDRESS}'])"
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(checkout.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", engine], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("starter", ["infra/provider/slipway", "scripts/plugins/azure-native"])
def test_the_shells_own_python_does_not_reach_a_plugins(checkout: Path, starter: str) -> None:
    """By hand, `pulumi up` runs in whatever shell it is."""
    shutil.copytree(CHECKOUT / "infra/provider", checkout / "infra/provider")
    shell_program(checkout / ".venv/bin/python", "env")
    names = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH")
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/", **dict.fromkeys(names, "/of/the/shell")}
    folder, package = starter.rsplit("/", 1)
    command = [str(checkout / folder / f"pulumi-resource-{package}"), ADDRESS]
    seen = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "HOME=/" in seen.stdout
    assert "/of/the/shell" not in seen.stdout
