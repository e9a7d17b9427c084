"""A real plugin always wins, and a refused download is tried only once: the same for each."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from clusters import CLUSTERS
from scripts.environment import pulumi_home
from scripts.setup import lookup, plugin, record, releases
from scripts.setup.plugin import AZURE, KUBERNETES, STAND_IN_ORIGIN, Plugin, is_stand_in
from scripts.setup.record import Entry, Problem
from scripts.setup.steps import Steps


class Cli:
    """A pulumi whose download of plugins does what a test says, and counts."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / "pulumi"
        self.calls = directory / "calls"
        self.calls.touch()

    def will(self, script: str) -> Entry:
        self.program.write_text(f'#!/bin/sh\necho "$@" >> {self.calls}\n{script}\n')
        self.program.chmod(0o755)
        return Entry.of(self.program, "v3.250.0", "built from its Go module", "")

    def asked(self) -> list[str]:
        return self.calls.read_text().splitlines()


CHECKSUM = "ab" * 32
REFUSE = "echo no such host >&2; exit 1"
STEPS = Steps(Console(file=io.StringIO()))


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(lookup, "_SYSTEM", ())
    monkeypatch.setattr(releases, "published", lambda *_addresses: CHECKSUM)
    monkeypatch.setattr(releases, "save", lambda _address, _checksum, file, _steps: file.touch())
    return Cli(tmp_path)


@pytest.fixture(params=[KUBERNETES, AZURE], ids=lambda wanted: str(wanted.package))
def wanted(request: pytest.FixtureRequest) -> Plugin:
    found: Plugin = request.param
    return found


def entry(wanted: Plugin, recorded: Entry | None, pulumi: Entry) -> Entry:
    result = plugin.provide(wanted, recorded, pulumi, STEPS)
    assert isinstance(result, Entry)
    return result


def test_the_version_that_the_sdk_needs_is_downloaded(wanted: Plugin, cli: Cli) -> None:
    place = pulumi_home() / "plugins" / f"resource-{wanted.package}-v{wanted.version}" / wanted.name
    pulumi = cli.will(f"mkdir -p {place.parent} && touch {place}")
    first = entry(wanted, None, pulumi)
    assert first.path == str(place)
    (asked,) = cli.asked()
    command, archive = asked.split(" --file ")
    assert command == f"plugin install resource {wanted.package} {wanted.version}"
    assert not Path(archive).exists()  # any more
    assert list(record.checksums().values()) == [CHECKSUM]  # the next must have the same
    assert entry(wanted, first, pulumi) == first
    assert len(cli.asked()) == 1


def test_the_stand_in_serves_when_the_download_is_refused_and_it_is_tried_once(
    wanted: Plugin, cli: Cli
) -> None:
    first = entry(wanted, None, cli.will(REFUSE))
    assert first.path == str(wanted.stand_in)
    assert is_stand_in(first)
    assert "failed with 1: no such host" in first.origin
    assert entry(wanted, first, cli.will(REFUSE)) == first
    assert len(cli.asked()) == 1


def test_a_download_that_hangs_is_given_up(
    wanted: Plugin, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_INSTALL_LIMIT", 0.2)
    assert "did not end within" in entry(wanted, None, cli.will("exec sleep 20")).origin


def test_a_refused_download_is_tried_again_for_another_version(
    wanted: Plugin, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = entry(wanted, None, cli.will(REFUSE))
    monkeypatch.setattr(plugin, "version_of_package", lambda _name: "99.0.0")
    entry(wanted, first, cli.will(REFUSE))
    assert f"plugin install resource {wanted.package} 99.0.0 " in cli.asked()[-1]


def test_a_plugin_without_its_publishers_checksum_is_not_installed(
    wanted: Plugin, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: str, checksums: str) -> str:
        assert address.startswith(f"https://github.com/pulumi/pulumi-{wanted.package}/releases/")
        raise releases.Refused(f"{checksums}: 404")

    monkeypatch.setattr(releases, "published", refuse)
    found = entry(wanted, None, cli.will("exit 0"))
    assert is_stand_in(found)
    assert f"pulumi-{wanted.package}_{wanted.version}_checksums.txt: 404" in found.origin
    assert not cli.asked()


def test_another_checkouts_stand_in_is_replaced_by_ours(wanted: Plugin, cli: Cli) -> None:
    first = entry(wanted, None, cli.will(REFUSE))
    elsewhere = Entry("/elsewhere/plugin", "-", first.origin, first.stamp, 1, 1)
    assert entry(wanted, elsewhere, cli.will(REFUSE)) == first
    assert len(cli.asked()) == 1


@pytest.fixture
def on_path(wanted: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real plugin on PATH."""
    real = tmp_path / "bin" / wanted.name
    real.parent.mkdir()
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{real.parent}")
    return real


def test_a_real_plugin_on_path_wins_over_a_recorded_stand_in(
    wanted: Plugin, cli: Cli, on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "version_of", lambda *_arguments: wanted.version)
    stand_in = Entry.of(wanted.stand_in, "-", f"{STAND_IN_ORIGIN}no such host", wanted.version)
    found = entry(wanted, stand_in, cli.will(REFUSE))
    assert (found.path, found.version, found.origin) == (str(on_path), wanted.version, "on PATH")


@pytest.mark.parametrize("version", ["0.1.0", None])
def test_a_plugin_on_path_of_another_version_is_refused(
    wanted: Plugin,
    cli: Cli,
    on_path: Path,
    version: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugin, "version_of", lambda *_arguments: version)
    problem = plugin.provide(wanted, None, cli.will(REFUSE), STEPS)
    assert isinstance(problem, Problem)
    assert f"{on_path} is version {version or 'unknown'}" in problem.why
    assert wanted.version in problem.why
    assert "Take it off PATH" in problem.remedy


def test_without_a_stand_in_the_refusal_is_a_problem(
    wanted: Plugin, cli: Cli, tmp_path: Path
) -> None:
    elsewhere = replace(wanted, directory=tmp_path / "nothing")
    problem = plugin.provide(elsewhere, None, cli.will(REFUSE), STEPS)
    assert isinstance(problem, Problem)
    assert "failed with 1: no such host" in problem.why
    assert problem.remedy == f"Put {wanted.name} {wanted.version} on PATH."


def test_one_that_was_fetched_by_hand_since_is_taken(wanted: Plugin, cli: Cli) -> None:
    first = entry(wanted, None, cli.will(REFUSE))
    place = pulumi_home() / "plugins" / f"resource-{wanted.package}-v{wanted.version}" / wanted.name
    place.parent.mkdir(parents=True)
    place.touch()
    assert entry(wanted, first, cli.will(REFUSE)).path == str(place)
    assert len(cli.asked()) == 1


def test_only_stacks_on_azure_need_its_plugin() -> None:
    assert plugin.of_kind(CLUSTERS["embedded"]) == plugin.of_kind(None) == (KUBERNETES,)
    for kind in ("aks", "azure-stack"):
        assert plugin.of_kind(CLUSTERS[kind]) == (KUBERNETES, AZURE)


def test_what_was_recorded_is_settled_until_something_else_would_be_found(
    wanted: Plugin, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not plugin.settled(wanted, None)
    stand_in = entry(wanted, None, cli.will(REFUSE))
    assert plugin.settled(wanted, stand_in)
    assert not plugin.settled(wanted, replace(stand_in, stamp="another version"))
    place = pulumi_home() / "plugins" / f"resource-{wanted.package}-v{wanted.version}" / wanted.name
    place.parent.mkdir(parents=True)
    place.touch()
    assert not plugin.settled(wanted, stand_in)
    fetched = entry(wanted, stand_in, cli.will(REFUSE))
    assert plugin.settled(wanted, fetched)
    real = tmp_path / "real" / wanted.name
    real.parent.mkdir()
    real.write_text(f"#!/bin/sh\necho {wanted.version}\n")
    real.chmod(0o755)
    monkeypatch.setenv("PATH", f"{real.parent}:/usr/bin:/bin")
    assert not plugin.settled(wanted, fetched)
    on_path = entry(wanted, fetched, cli.will(REFUSE))
    assert plugin.settled(wanted, on_path)
    real.write_text("#!/bin/sh\necho 1.2.4 newer\n")
    assert not plugin.settled(wanted, on_path)
