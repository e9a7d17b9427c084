"""The settings of a private registry, and with what nodes pull from it."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.cluster import Cluster
from clusters.image_registry import Registry
from core.validation import check

_DIGEST = f"sha256:{'3' * 64}"


SERVER = "it must be a registry"
MIRROR = "it must be an image in a private registry"
PATH = "it must be the path of a docker config.json, starting with / or ~/"


def _mirrored(place: str) -> dict[str, Any]:
    return {"mirrors": {"docker.io/library/busybox:1.37.0": f"{place}@{_DIGEST}"}}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"server": "10.0.0.5:5000"}, None),
        ({"server": "example.org:5000/team/images"}, None),
        ({"server": ""}, SERVER),
        ({"server": "https://example.org"}, SERVER),
        ({"server": "example.org/"}, SERVER),
        ({"server": "example.org/Team"}, SERVER),
        ({"server": "me@example.org"}, SERVER),
        (_mirrored("registry:5000/a"), None),
        (_mirrored("docker.io/me/a"), MIRROR),
        (_mirrored("me/a"), MIRROR),
        # The same file from every directory.
        ({"credentials": "~/.docker/config.json"}, None),
        ({"credentials": "config.json"}, PATH),
    ],
)
def test_settings_are_taken_or_refused_with_what_is_allowed(
    document: dict[str, Any], told: str | None
) -> None:
    found = check(Registry, {"server": "example.org", **document}, "registry")
    if told is None:
        assert isinstance(found, Registry)
    else:
        assert isinstance(found, list)
        (problem,) = found
        assert told in problem.text


def test_images_get_in_by_the_same_login() -> None:
    target = {"kind": "registry", "server": "example.org/a", "login": "docker"}
    assert Registry(server="example.org/a").target() == target
    known = Registry(server="example.org/a", credentials="/tmp/config.json")
    assert known.target()["credentials"] == "/tmp/config.json"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, r"credentials: \S+/config\.json can't be read"),
        ({"auths": {}}, r"contains no login for example\.org.*docker --con"),
        (
            {"auths": {"example.org": {}}, "credsStore": "desktop"},
            r"contains no login for example\.org.*docker --con",
        ),
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
