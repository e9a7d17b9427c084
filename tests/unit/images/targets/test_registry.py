"""A registry that gives tokens, is busy or refuses; its logins, and where they are left."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest

from core.process import CommandFailed
from core.toolchain import ToolMissing
from images.build import engines
from images.targets import registry_login as login
from images.targets.registry import Registry
from images.targets.registry_login import Login, config, find_login, stored_login
from images.targets.target import TargetError
from tests.doubles.serving import in_background
from tests.unit.images.objects import Listener
from tests.unit.shell_program import shell_program

_DIGEST = f"sha256:{'2' * 64}"
_ME = Login.from_credentials("me", "pw")


class _Handler(BaseHTTPRequestHandler):
    """A registry that wants a token, which it gives for a login, or for a refresh token."""

    busy: int
    realm: str

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._say(200, {"access_token": "given"} if "refresh_token=identity" in form else {})

    def do_GET(self) -> None:
        authorization = self.headers["Authorization"]
        url = urlsplit(self.path)
        if url.path == "/token":
            assert parse_qs(url.query)["scope"] == ["repository:team/a:pull"]
            known = authorization == f"Basic {_ME.auth}"
            self._say(200 if known else 401, {"token": "given"})
        elif type(self).busy > 0:
            type(self).busy -= 1
            self._say(503)
        elif authorization != "Bearer given":
            host = self.headers["Host"]
            realm = self.realm or f"http://{host}/token"
            challenge = f'Bearer realm="{realm}",service="{host}"'
            self._say(401, headers={"WWW-Authenticate": challenge})
        elif url.path.endswith("/missing"):
            self._say(404)
        else:
            self._say(200, headers={"Docker-Content-Digest": _DIGEST})

    do_HEAD = do_GET  # noqa: N815 - the base's name

    def _say(self, code: int, content: Any = None, headers: dict[str, str] | None = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _serving(
    folder: Path, login: Login = _ME, busy: int = 0, realm: str = ""
) -> Iterator[Registry]:
    """Serve a registry; yields it with this login."""
    handler = type("Handler", (_Handler,), {"busy": busy, "realm": realm})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    name = f"127.0.0.1:{server.server_port}/team"
    with in_background(server):
        yield Registry(name, credentials=str(_file(folder, **config(name, login))))


@pytest.mark.parametrize(
    ("login", "busy"), [(_ME, 0), (_ME, 2), (Login.from_credentials("<token>", "identity"), 0)]
)
def test_a_registry_is_asked_with_a_token_and_again_while_it_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: Login, busy: int
) -> None:
    """A netrc does not take the login's place."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with _serving(tmp_path, login, busy) as target:
        assert target.digest(f"{target.server}/a:1") == _DIGEST
        assert target.digest(f"{target.server}/a:missing") is None
        assert target.is_up


@pytest.mark.parametrize(
    ("serves", "says"),
    [
        (
            {"login": Login.from_credentials("me", "wrong")},
            r"did not issue a token \(401\); log in with `docker --config .* login 127[\d.:]*`",
        ),
        ({"busy": 99}, "did not respond within .* it is busy"),
        ({"realm": "http://elsewhere.example.org/token"}, "where others could read them"),
    ],
    ids=["a wrong login", "it stays busy", "a login would be sent without TLS"],
)
def test_why_a_registry_cannot_be_asked_is_said_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serves: dict[str, Any], says: str
) -> None:
    monkeypatch.setattr("images.targets.registry.LIMIT", 0.1)
    with _serving(tmp_path, **serves) as target:
        assert target.is_up == ("busy" not in serves)
        with pytest.raises(TargetError, match=says) as error:
            target.digest(f"{target.server}/a:1")
    assert "wrong" not in str(error.value)


def test_the_login_that_a_killed_push_left_goes_with_the_next_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    login = tmp_path / "slipway/images/work/killed/config.json"
    login.parent.mkdir(parents=True)
    login.touch()
    monkeypatch.setattr(engines, "choose", Mock(side_effect=ToolMissing("buildah")))
    with pytest.raises(ToolMissing):
        Registry("example.org").load(tmp_path / "a.tar", "a:1", Listener())
    assert not login.parents[1].exists()


def _auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def _file(folder: Path, **content: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(content))
    return folder / "config.json"


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


def test_a_credential_helper_is_asked_only_where_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = '{"Username": "me", "Secret": "of %s"}'
    helper = f'test "$1" = get && printf \'{says}\' "$(cat)"'
    shell_program(tmp_path / "docker-credential-test", helper)
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
        shell_program(tmp_path / "az", f"echo \"$@\" >> {calls}\necho '{says}'")
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        found = [find_login("team.azurecr.io/a", "azure", "mine") for _ in range(2)]
        assert found == [Login.from_credentials(login.AZURE_USER, "a token")] * 2
        (call,) = calls.read_text().splitlines()
        assert call.startswith("acr login --name team --subscription mine --expose-token")

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
