"""A person's Python makes the environment, or says what it lacks; two never do it at once."""

import ast
import re
import subprocess
import sys
import threading
import tomllib
from contextlib import ExitStack
from importlib.metadata import distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from clusters.cluster import Kind
from clusters.kinds import CLUSTERS
from core.paths import CHECKOUT
from scripts.cli.calls import call
from scripts.setup import bootstrap
from scripts.setup import provide as setup
from tests.unit.shell_program import shell_program


def test_what_a_python_lacks_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bootstrap.problem() is None
    with monkeypatch.context() as without_venv:
        without_venv.setattr("importlib.util.find_spec", lambda _: None)
        missing = "ensurepip module is missing.*apt-get install python3-venv"
        assert re.search(missing, str(bootstrap.problem()))
    monkeypatch.setattr("sys.version_info", (3, 9, 2))
    old = "3.11 or newer is required, but .* is 3.9. Select another one: make PYTHON=python3.12"
    assert re.search(f"^Python {old}", str(bootstrap.problem()))


def test_it_is_read_by_pythons_that_are_too_old() -> None:
    """They must get as far as the message."""
    ast.parse(Path(bootstrap.__file__).read_text(), feature_version=(3, 7))


def test_it_uses_nothing_but_the_standard_library(tmp_path: Path, root: Path) -> None:
    code = "import scripts.setup.bootstrap, core.files, core.paths, core.toolchain"
    isolated = [sys.executable, "-S", "-c", code]  # -S: no installed packages
    subprocess.run(isolated, cwd=root, check=True, env={"HOME": str(tmp_path)})


def test_the_link_is_made_moved_and_left_and_replaces_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    for venv in (tmp_path / "one", tmp_path / "two", tmp_path / "two"):
        bootstrap.link(venv)
        assert (tmp_path / ".venv").readlink() == venv
    (tmp_path / ".venv-test").mkdir()
    with pytest.raises(SystemExit, match="Move it away"):
        bootstrap.link(tmp_path / "one", ".venv-test")
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path / "gone")
    with pytest.raises(SystemExit, match=r"No such file.*Let this user write to .*/gone"):
        bootstrap.link(tmp_path / "one")


def test_a_second_set_up_says_that_it_waits_and_goes_on_when_the_first_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ExitStack()
    first.enter_context(bootstrap.exclusive(tmp_path / "setup.lock"))
    threading.Timer(0.2, first.close).start()
    with bootstrap.exclusive(tmp_path / "setup.lock"):
        assert "Waiting for another setup" in capsys.readouterr().err


def set_up(stack: str) -> int:
    """Return the exit status of `make setup`."""
    return call("setup", "setup.provide:provide", {"stack": stack})


def test_an_unknown_stack_source_or_system_is_named_first(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set_up("dve") == 1
    assert "Did you mean dev?" in "".join(capsys.readouterr())
    with monkeypatch.context() as patched:
        patched.setenv("SOURCE", "biuld")
        assert set_up("dev") == 1
    assert capsys.readouterr().err == "SOURCE=biuld is not allowed; valid values: build, release.\n"
    assert not cache.exists()
    monkeypatch.setattr("sys.platform", "darwin")
    assert set_up("dev") == 1
    assert "make up STACK=kind" in "".join(capsys.readouterr())


@pytest.mark.parametrize("internet", [True, False, None])
def test_what_a_setting_takes_is_provided_where_it_is_true(
    internet: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    provided: list[Kind] = []
    cluster = {"kind": "embedded", "internet": internet}
    monkeypatch.setattr(setup, "cluster_of", lambda _stack: cluster)
    monkeypatch.setattr(setup, "set_up", lambda kind, **_options: provided.append(kind))
    setup.provide("dev", preview=True)
    more = provided[0].tools[len(CLUSTERS["embedded"].tools) :]
    assert more == (("slirp4netns",) if internet else ())


def test_an_extra_is_installed_once_by_hash_and_tried_again_after_a_failure(
    tmp_path: Path, cache: Path
) -> None:
    python, asked = tmp_path / "venv" / "bin" / "python", tmp_path / "asked"
    shell_program(
        python,
        f'for last; do [ "$before" = --target ] && mkdir -p "$last"; '
        f'before=$last; done; echo "$@" >> {asked}; [ -e {tmp_path}/works ]',
    )
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    (tmp_path / "works").touch()
    place = bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    assert place == bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    assert place.is_dir()
    assert place.parent == cache
    [_, command] = asked.read_text().splitlines()
    assert "--require-hashes --only-binary=:all: --no-user" in command
    assert command.endswith(f"--requirement {CHECKOUT}/requirements-azure.lock")
    # As an environment, it is made again where its Python was removed.
    (place / "bin").mkdir()
    (place / "bin/python").symlink_to(tmp_path / "removed")
    bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    assert len(asked.read_text().splitlines()) == 3


@pytest.mark.parametrize("extra", [bootstrap.AZURE, bootstrap.REPORT])
def test_the_lock_of_an_extra_has_what_pyproject_asks_for(extra: str, root: Path) -> None:
    with (root / "pyproject.toml").open("rb") as file:
        asked = tomllib.load(file)["dependency-groups"][extra]
    pinned = locked(root / f"requirements-{extra}.lock")
    for need in map(Requirement, asked):
        assert str(need.specifier) == f"=={pinned[canonicalize_name(need.name)]}"


def locked(lock: Path) -> dict[str, str]:
    """The versions that a lock file pins on this machine, by name."""
    pins = [line for line in lock.read_text().splitlines() if "==" in line and line[0].isalpha()]
    wanted = [Requirement(pin.removesuffix(" \\")) for pin in pins]
    return {
        each.name: str(each.specifier).removeprefix("==")
        for each in wanted
        if each.marker is None or each.marker.evaluate()
    }


def test_the_runtime_environment_holds_what_its_lock_lists_and_nothing_else(root: Path) -> None:
    """Pulumi lists it at every start, and starts the plugin of each package that has one."""
    found = distributions(path=[str(bootstrap.site_packages(root / ".venv"))])
    there = {str(canonicalize_name(each.name)): each.version for each in found}
    from_venv = {"setuptools"} & there.keys()
    assert there == locked(root / "requirements.lock") | {name: there[name] for name in from_venv}


def test_what_is_installed_without_its_requirements_has_them_in_a_lock(root: Path) -> None:
    names = ("requirements", "requirements-test", "requirements-azure", "requirements-report")
    runtime, tests, azure, report = (locked(root / f"{name}.lock") for name in names)
    assert not runtime.keys() & (tests.keys() | report.keys())
    for added in (azure, report, tests):
        there = {**runtime, **added}
        for need in (Requirement(each) for name in added for each in requires(name) or ()):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert need.specifier.contains(there[canonicalize_name(need.name)]), need
