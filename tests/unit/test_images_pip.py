"""A build's own `pip install` works with the settings of this machine's pip."""

from configparser import RawConfigParser
from pathlib import Path

import pytest

from images import pip


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(variable, raising=False)


def configure(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(pip, "answer", lambda *_: "\n".join(lines))


def test_what_the_environment_says_wins() -> None:
    listed = ":env:.index-url='https://b.example/'\nglobal.index-url='https://a.example/'"
    assert pip.settings(listed) == {"index-url": "https://b.example/"}


def test_an_index_and_certificates_are_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.crt"
    bundle.write_text("certificates")
    configure(
        monkeypatch, "global.index-url='https://u:p@a.example/'", f"global.cert={str(bundle)!r}"
    )
    files = pip.mounts(tmp_path)
    parser = RawConfigParser()
    parser.read(files["/etc/pip.conf"])
    settings = dict(parser["global"])
    assert settings.pop("index-url") == "https://u:p@a.example/"
    assert files[settings.pop("cert")] == bundle
    assert settings == {}
    assert files["/etc/pip.conf"].stat().st_mode & 0o077 == 0


def test_a_bundle_that_other_programs_use_is_pips_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch)
    (tmp_path / "bundle.crt").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.crt"))
    assert tmp_path / "bundle.crt" in pip.mounts(tmp_path).values()


def test_what_names_places_of_this_machine_is_not_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, ":env:.find-links='/opt/wheels'", "global.cert='/no/such/file'")
    assert pip.mounts(tmp_path) == {}
