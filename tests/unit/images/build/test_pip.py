"""Packages are fetched once for each lock file; a build gets this machine's settings."""

import re
from configparser import RawConfigParser
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from images.build import pip
from images.build.releases import RELEASES
from images.build.runner import BuildFailed, Runner
from images.build.trainer import TRAINER
from tests.unit.images.objects import Listener


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Fetch with a program that puts the lock file's text into the target, not with pip."""
    fetch = 'cp "$0" "$1/package.py"; ! grep -q missing "$0"'
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(pip, "_command", lambda *paths: ("sh", "-c", fetch, *map(str, paths)))
    return Runner(tmp_path / "log", Listener())


def _installed(runner: Runner, text: str, name: str = "requirements.lock") -> str:
    lock, target = runner.log.with_name(name), runner.log.with_name(str(uuid4()))
    lock.write_text(text)
    pip.install(lock, target, runner, "3.14")
    return (target / "package.py").read_text()


def test_each_images_packages_are_fetched_once(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _installed(runner, "a==1") == "a==1"
    assert _installed(runner, "torch==1", "requirements.cuda.lock") == "torch==1"
    fetched = runner.log.read_bytes()
    assert _installed(runner, "a==1") == "a==1"
    assert runner.log.read_bytes() == fetched
    assert _installed(runner, "a==2") == "a==2"
    kept = tmp_path / "cache/slipway/packages/requirements-3.14"
    assert len(list(kept.iterdir())) == 1, "another lock file forgets the old wheels"
    there: list[list[str]] = []
    monkeypatch.setattr("os.sync", lambda: there.append([each.suffix for each in kept.iterdir()]))
    _installed(runner, "a==3")
    assert [sorted(each) for each in there] == [["", ".unfinished"]], "on the disk before its name"


def test_what_a_failed_fetch_left_is_not_taken(runner: Runner) -> None:
    for _ in range(2):
        with pytest.raises(BuildFailed, match="fetching Python packages"):
            _installed(runner, "missing==1")
    left = {each.name for each in runner.log.parent.iterdir()}
    assert left == {"cache", "log", "requirements.lock"}


@pytest.mark.parametrize(
    ("name", "essential"),
    [
        ("requirements.lock", {"adlfs", "obstore"}),
        *((f"requirements.cuda-{version}.lock", {"torch"}) for version in RELEASES),
    ],
)
def test_a_lock_file_has_hashes_and_no_index(name: str, essential: set[str]) -> None:
    text = (TRAINER.context / name).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    packages = "\n".join(lines).replace("\\\n", "").splitlines()
    for package in packages:
        # One hash for each kind of machine, where a wheel is compiled.
        assert re.fullmatch(r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", package), package
    assert essential <= {package.partition("==")[0] for package in packages}


def configure(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    for variable in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pip, "answer", lambda *_: "\n".join(lines))


def test_index_and_certificates_go_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, url = tmp_path / "bundle.crt", "https://u:p@a.example/"
    bundle.touch()
    other = "global.index-url='https://b.example/'"
    configure(monkeypatch, f":env:.index-url={url!r}", other, f"global.cert={str(bundle)!r}")
    files = pip.mounts(tmp_path)
    parser = RawConfigParser()
    parser.read(files["/etc/pip.conf"])
    settings = dict(parser["global"])
    assert files[settings.pop("cert")] == bundle
    assert settings == {"index-url": url}
    assert files["/etc/pip.conf"].stat().st_mode & 0o077 == 0


def test_other_programs_bundle_is_pips_too_and_places_of_this_machine_stay_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, ":env:.find-links='/opt/wheels'", "global.cert='/no/such/file'")
    assert pip.mounts(tmp_path) == {}
    configure(monkeypatch)
    (tmp_path / "bundle.crt").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.crt"))
    assert tmp_path / "bundle.crt" in pip.mounts(tmp_path).values()


_OUTPUTS = yaml.safe_load(Path(__file__).with_name("pip_outputs.yaml").read_text())


@pytest.mark.parametrize("recorded", _OUTPUTS, ids=[each["name"] for each in _OUTPUTS])
def test_pips_reason_is_the_cause_and_not_the_last_line(recorded: dict[str, str]) -> None:
    """Also as docker's builder shows a step's output, and after a step that says much."""
    assert pip.reason(recorded["printed"]) == recorded["reason"]
    shown = "".join(f"#7 12.34 {line}\n" for line in recorded["printed"].splitlines())
    assert pip.reason("Collecting more\n" * 9000 + shown) == recorded["reason"]
    assert pip.reason("STEP 3/4: COPY train.py /\nError: no such file\n") is None
