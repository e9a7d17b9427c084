"""A person's Python makes the environment, or says what it lacks; two never do it at once."""

import ast
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
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
from scripts.setup import bootstrap, record, resolve
from scripts.setup import provide as setup
from scripts.setup.record import Entry
from scripts.setup.tools import Tool
from tests.unit.shell_program import shell_program


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    return tmp_path


OLD = (
    r"^Python 3.11 or newer is required, but .* is 3.9. Select another one: make PYTHON=python3.12"
)


def test_this_python_lacks_nothing() -> None:
    assert bootstrap.problem() is None


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        (
            *("sys.version_info", (3, 9, 2)),
            OLD,
        ),
        (
            *("importlib.util.find_spec", lambda _: None),
            "ensurepip module is missing.*apt-get install python3-venv",
        ),
    ],
)
def test_what_a_python_lacks_is_named_with_the_remedy(
    attribute: str, value: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribute, value)
    assert re.search(message, str(bootstrap.problem()))


def test_it_is_read_by_pythons_that_are_too_old() -> None:
    """They must get as far as the message."""
    ast.parse(Path(bootstrap.__file__).read_text(), feature_version=(3, 7))


def test_it_uses_nothing_but_the_standard_library(tmp_path: Path, root: Path) -> None:
    code = "import scripts.setup.bootstrap, core.files, core.paths, core.toolchain"
    isolated = [sys.executable, "-S", "-c", code]  # -S: no installed packages
    subprocess.run(isolated, cwd=root, check=True, env={"HOME": str(tmp_path)})


def test_the_link_is_made_moved_and_left(checkout: Path) -> None:
    for venv in (checkout / "one", checkout / "two", checkout / "two"):
        bootstrap.link(venv)
        assert (checkout / ".venv").readlink() == venv


def test_a_persons_own_environment_is_not_replaced(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    with pytest.raises(SystemExit, match="Move it away"):
        bootstrap.link(checkout / "one")


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


def test_another_system_than_linux_is_pointed_to_the_other_clusters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert set_up("dev") == 1
    assert "make up STACK=kind" in "".join(capsys.readouterr())


def test_an_unknown_stack_is_named_first(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set_up("dve") == 1
    assert "Did you mean dev?" in "".join(capsys.readouterr())
    assert not cache.exists()


def test_nothing_heavy_is_loaded_before_there_is_something_to_do(root: Path) -> None:
    code = (
        "import sys, scripts.setup.provide; "
        "print(sorted({'rich', 'requests', 'pulumi', 'kubernetes', 'pydantic'} & {*sys.modules}))"
    )
    command = [sys.executable, "-c", code]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"


@pytest.mark.parametrize("there", [True, False])
def test_a_brief_set_up_provides_only_when_something_is_missing(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, runc = tmp_path / "runc", Tool("runc")
    program.touch()
    recorded = {"runc": Entry.from_file(program, "1.1", "on PATH", runc.stamp)} if there else {}
    record.save(recorded)
    monkeypatch.setattr(setup, "tools_of", lambda _kind: (runc,))
    kind = CLUSTERS["kind"]
    provided: list[Kind] = []

    def provide(kind: Kind, **_options: bool) -> int:
        provided.append(kind)
        return 0

    monkeypatch.setattr(resolve, "resolve_and_report", provide)
    assert setup.set_up(kind, brief=True, build=False) == 0
    assert provided == ([] if there else [kind])
    assert setup.set_up(kind, brief=False, build=False) == 0
    assert provided[-1:] == [kind]


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


def test_a_source_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE", "biuld")
    assert set_up("dev") == 1
    assert capsys.readouterr().err == "SOURCE=biuld is not allowed; valid values: build, release.\n"


@pytest.fixture
def pip(tmp_path: Path) -> Callable[[str], list[str]]:
    """An environment whose pip does what a test says, and notes what it was asked."""
    asked = tmp_path / "asked"
    asked.touch()

    def will(script: str) -> list[str]:
        target = 'for word; do [ "$before" = --target ] && mkdir -p "$word"; before=$word; done'
        python = tmp_path / "venv" / "bin" / "python"
        shell_program(python, f'echo "$@" >> {asked}\n{target}\n{script}')
        return asked.read_text().splitlines()

    return will


def test_an_extra_is_installed_once_by_hash(
    tmp_path: Path, cache: Path, pip: Callable[[str], list[str]]
) -> None:
    pip("exit 0")
    place = bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    assert place == bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    assert place.is_dir()
    assert place.parent == cache
    [asked] = pip("exit 0")
    assert "--require-hashes" in asked
    assert "--only-binary=:all:" in asked
    assert asked.endswith(f"--requirement {CHECKOUT}/requirements-azure.lock")


def test_a_failed_extra_is_tried_again(tmp_path: Path, pip: Callable[[str], list[str]]) -> None:
    pip("exit 1")
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    pip("exit 0")
    bootstrap.add_extra(bootstrap.AZURE, tmp_path / "venv")
    assert len(pip("exit 0")) == 2


def test_every_extra_that_a_kind_of_cluster_needs_can_be_added() -> None:
    needed = {kind.extra for kind in CLUSTERS.values() if kind.extra is not None}
    assert needed == {bootstrap.AZURE}


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
    runtime = locked(root / "requirements.lock")
    tests = locked(root / "requirements-test.lock")
    azure = locked(root / "requirements-azure.lock")
    report = locked(root / "requirements-report.lock")
    assert not runtime.keys() & (tests.keys() | report.keys())
    for names in (azure, report, tests):
        locks = (runtime, names)
        there = {name: version for lock in locks for name, version in lock.items()}
        asked = [Requirement(each) for name in names for each in requires(name) or ()]
        for need in asked:
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert need.specifier.contains(there[canonicalize_name(need.name)]), need
