"""The settings of a private registry, and with what nodes pull from it."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.cluster import Cluster
from clusters.image_registry import Registry
from core.validation import check


@pytest.mark.parametrize("server", ["10.0.0.5:5000", "example.org:5000/team/images"])
def test_a_registry_is_an_address_with_a_path_or_without(server: str) -> None:
    credentials = {"credentials": "~/.docker/config.json"}
    assert isinstance(check(Registry, {"server": server, **credentials}, "registry"), Registry)


@pytest.mark.parametrize("server", ["example.org/", "me@example.org"])
def test_a_server_that_is_no_registrys_is_refused(server: str) -> None:
    """More of what is refused: tests/clusters/kubeconfig.bad.yaml."""
    assert "it must be a registry" in str(check(Registry, {"server": server}, "registry"))


def test_images_get_in_by_the_same_login() -> None:
    target = {"kind": "registry", "server": "example.org/a", "login": "docker"}
    assert Registry(server="example.org/a").target() == target
    known = Registry(server="example.org/a", credentials="/tmp/config.json")
    assert known.target()["credentials"] == "/tmp/config.json"


NO_LOGIN = r"contains no login for example\.org.*docker --con"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, r"credentials: \S+/config\.json can't be read"),
        ({"auths": {}}, NO_LOGIN),
        ({"auths": {"example.org": {}}, "credsStore": "desktop"}, NO_LOGIN),
    ],
)
def test_credentials_without_the_registrys_login_are_refused(
    content: dict[str, Any] | None, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(json.dumps(content))
    with pytest.raises(pulumi.RunError, match=told):
        Registry(server="example.org", credentials=str(file)).pull_secret()
    assert not Cluster.__dataclass_fields__["pull_secret"].repr
