"""Logins come from docker's file, a credential helper or the Azure CLI."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from core.process import CommandFailed
from images.targets import registry_login as login
from images.targets.registry_login import Login, config, find_login, stored_login
from images.targets.target import TargetError


def _auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def _file(folder: Path, **content: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize(
    ("key", "server", "others"),
    [
        ("example.org:5000", "example.org:5000/team", {}),
        ("https://index.docker.io/v1/", "docker.io/me", {}),
        ("example.org/team", "example.org/team", {"example.org": _auth("x:y")}),
    ],
)
def test_an_entry_is_found_by_any_name_and_a_push_is_given_that_one_alone(
    key: str, server: str, others: dict[str, Any], tmp_path: Path
) -> None:
    """A path's own comes first; the login is in no representation."""
    auths = {**others, key: _auth("me:a:b"), "other.org": _auth("x:y")}
    found = stored_login(server, _file(tmp_path, auths=auths))
    assert found == Login.from_credentials("me", "a:b")
    assert auths[key]["auth"] not in repr(found)
    [entry] = config(server, found)["auths"].values()
    assert entry == _auth("me:a:b")


def test_no_login_is_anonymous_and_a_file_without_the_entry_suggests_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    assert find_login("example.org", "docker", None) is None
    file = _file(tmp_path, auths={"other.org": _auth("x:y")})
    with pytest.raises(TargetError, match=r"no entry for example\.org.*login example\.org"):
        find_login("example.org", "docker", str(file))


@pytest.mark.parametrize("text", ["[]", "{", '{"auths": {"example.org": {"auth": "%"}}}'])
def test_a_damaged_files_content_is_in_no_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(TargetError, match=str(file)) as told:
        stored_login("example.org", file)
    assert "%" not in str(told.value)


def _program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_credential_helper_is_asked_only_where_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = '{"Username": "me", "Secret": "of %s"}'
    helper = f'test "$1" = get && printf \'{says}\' "$(cat)"'
    _program(tmp_path, "docker-credential-test", helper)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    file = _file(tmp_path, credHelpers={"example.org": "test"})
    assert stored_login("example.org/a", file) == Login.from_credentials("me", "of example.org")
    assert stored_login("example.org/a", file, ask_helpers=False) is None
    assert stored_login("other.org", file) is None


class TestAzure:
    """The Azure CLI's login."""

    @pytest.fixture(autouse=True)
    def _nothing_is_remembered(self) -> Iterator[None]:
        login._by_azure.cache_clear()
        yield
        login._by_azure.cache_clear()

    def test_a_token_is_asked_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = tmp_path / "calls"
        says = '{"accessToken": "a token", "loginServer": "team.azurecr.io"}'
        _program(tmp_path, "az", f"echo \"$@\" >> {calls}\necho '{says}'")
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        found = [find_login("team.azurecr.io/a", "azure", None) for _ in range(2)]
        assert found == [Login.from_credentials(login.AZURE_USER, "a token")] * 2
        (call,) = calls.read_text().splitlines()
        assert call.startswith("acr login --name team --expose-token")

    @pytest.mark.parametrize(
        ("answer", "says"),
        [
            (CommandFailed("no az"), "no az; install the Azure CLI, log in with `az login`"),
            ("{}", "update the Azure CLI"),
        ],
    )
    def test_a_failing_cloud_login_is_reported_with_a_remedy(
        self, answer: Any, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(login, "run", Mock(side_effect=[answer]))
        with pytest.raises(TargetError, match=says):
            find_login("team.azurecr.io", "azure", None)
