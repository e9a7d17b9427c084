"""The settings of a private registry, and with what nodes pull from it."""

import base64
import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.cluster import Cluster
from clusters.image_registry import Registry
from core.validation import check

_DIGEST = f"sha256:{'3' * 64}"


def _checked(**document: Any) -> list[str]:
    found = check(Registry, document, "registry")
    return [str(each) for each in found] if isinstance(found, list) else []


@pytest.mark.parametrize(
    "server", ["example.org", "10.0.0.5:5000", "localhost:5000", "example.org:5000/team/images"]
)
def test_a_server_is_a_host_with_or_without_a_port_and_a_path(server: str) -> None:
    assert _checked(server=server) == []


@pytest.mark.parametrize(
    "server", ["", "https://example.org", "example.org/", "example.org/Team", "me@example.org"]
)
def test_another_server_is_refused_with_what_it_takes(server: str) -> None:
    (problem,) = _checked(server=server)
    assert problem.startswith(f'registry.server: "{server}" is not allowed; it must be a registry')


@pytest.mark.parametrize(
    ("place", "problems"),
    [("localhost/a", 0), ("registry:5000/a", 0), ("docker.io/me/a", 1), ("me/a", 1)],
)
def test_a_mirror_is_not_at_docker_hub(place: str, problems: int) -> None:
    mirrors = {"docker.io/library/busybox:1.37.0": f"{place}@{_DIGEST}"}
    found = _checked(server="example.org", mirrors=mirrors)
    assert len(found) == problems
    assert all("it must be an image in a private registry" in each for each in found)


def test_credentials_are_the_same_file_from_every_directory() -> None:
    assert _checked(server="example.org", credentials="~/.docker/config.json") == []
    (problem,) = _checked(server="example.org", credentials="config.json")
    assert "it must be the path of a docker config.json, starting with / or ~/" in problem


def test_images_get_in_by_the_same_login() -> None:
    target = {"kind": "registry", "server": "example.org/a", "login": "docker"}
    assert Registry(server="example.org/a").target() == target
    known = Registry(server="example.org/a", credentials="/tmp/config.json")
    assert known.target()["credentials"] == "/tmp/config.json"


class TestPullSecret:
    """What nodes are given."""

    def _file(self, folder: Path, **content: Any) -> str:
        (folder / "config.json").write_text(json.dumps(content))
        return str(folder / "config.json")

    def test_it_has_only_that_registrys_login_and_no_repr(self, tmp_path: Path) -> None:
        login = {"auth": base64.b64encode(b"me:pw").decode()}
        auths = {"example.org": login, "other.org": {"auth": "b3RoZXI6cHc="}}
        file = self._file(tmp_path, auths=auths)
        secret = Registry(server="example.org/team", credentials=file).pull_secret()
        assert secret is not None
        assert json.loads(secret) == {"auths": {"example.org": login}}
        assert not Cluster.__dataclass_fields__["pull_secret"].repr

    def test_without_credentials_there_is_none(self) -> None:
        assert Registry(server="example.org").pull_secret() is None

    @pytest.mark.parametrize(
        "content", [{"auths": {}}, {"auths": {"example.org": {}}, "credsStore": "desktop"}]
    )
    def test_a_missing_login_names_docker(self, content: dict[str, Any], tmp_path: Path) -> None:
        file = self._file(tmp_path, **content)
        told = r"contains no login for example\.org.*docker --con"
        with pytest.raises(pulumi.RunError, match=told):
            Registry(server="example.org", credentials=file).pull_secret()

    def test_a_file_that_is_not_there_is_named(self) -> None:
        with pytest.raises(pulumi.RunError, match=r"credentials: /nowhere/a\.json can't be read"):
            Registry(server="example.org", credentials="/nowhere/a.json").pull_secret()
