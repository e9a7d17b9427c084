"""Who one is to a registry, and how a registry is asked."""

import base64
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from images import registry_api, registry_files, registry_logins
from images.registry_api import RegistryApi
from images.registry_http import is_loopback
from images.registry_login import Login, config
from images.targets import TargetError, registry
from images.targets.registry import Registry
from tests.unit.infra.operator.test_handler import Row

_DIGEST = f"sha256:{'2' * 64}"


def _auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def _file(folder: Path, **content: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(content))
    return file


class TestLogins:
    """What a docker config.json says."""

    @pytest.mark.parametrize(
        ("key", "server"),
        [
            ("example.org:5000", "example.org:5000/team"),
            ("https://example.org/v1/", "example.org"),
            ("https://index.docker.io/v1/", "docker.io/me"),
            ("example.org/team", "example.org/team"),
        ],
    )
    def test_an_entry_is_found_however_the_file_names_the_registry(
        self, key: str, server: str, tmp_path: Path
    ) -> None:
        file = _file(tmp_path, auths={key: _auth("me:a:b"), "other.org": _auth("x:y")})
        assert registry_files.stored(server, file) == Login("me", "a:b")

    def test_a_paths_own_entry_wins(self, tmp_path: Path) -> None:
        auths = {"example.org": _auth("all:1"), "example.org/team": _auth("team:1")}
        file = _file(tmp_path, auths=auths)
        assert registry_files.stored("example.org/team", file) == Login("team", "1")

    def test_what_a_push_is_given_has_that_one_entry(self, tmp_path: Path) -> None:
        file = _file(tmp_path, auths={"example.org": _auth("me:pw"), "other.org": _auth("x:y")})
        login = registry_files.stored("example.org/team", file)
        assert config("example.org/team", login) == {"auths": {"example.org": _auth("me:pw")}}

    def test_a_login_never_shows_its_password(self) -> None:
        assert "secret" not in repr(Login("me", "secret"))

    def test_no_entry_in_a_file_that_was_named_is_told_with_what_to_do(
        self, tmp_path: Path
    ) -> None:
        file = _file(tmp_path, auths={"other.org": _auth("x:y")})
        with pytest.raises(TargetError, match=r"no entry for example\.org.*login example\.org"):
            registry_logins.login("example.org", "docker", str(file))

    def test_without_a_file_of_ones_own_one_is_nobody(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        monkeypatch.setenv("REGISTRY_AUTH_FILE", "")
        monkeypatch.setenv("XDG_RUNTIME_DIR", "")
        assert registry_logins.login("example.org", "docker", None) is None

    @pytest.mark.parametrize("text", ["[]", "{", '{"auths": {"example.org": {"auth": "%"}}}'])
    def test_a_damaged_file_is_told_without_what_is_in_it(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "config.json"
        file.write_text(text)
        with pytest.raises(TargetError, match=str(file)) as told:
            registry_files.stored("example.org", file)
        assert "%" not in str(told.value)

    def test_a_credential_helper_is_asked_only_where_it_may_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        helper = tmp_path / "docker-credential-test"
        helper.write_text(
            "#!/bin/sh\n"
            'test "$1" = get && server=$(cat) && '
            'printf \'{"Username": "me", "Secret": "of %s"}\' "$server"\n'
        )
        helper.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        file = _file(tmp_path, credHelpers={"example.org": "test"})
        assert registry_files.stored("example.org/a", file) == Login("me", "of example.org")
        assert registry_files.stored("example.org/a", file, ask_helpers=False) is None
        assert registry_files.stored("other.org", file) is None


class TestAzure:
    """The Azure CLI's login."""

    @pytest.fixture(autouse=True)
    def _nothing_is_remembered(self) -> Iterator[None]:
        registry_logins._by_azure.cache_clear()
        yield
        registry_logins._by_azure.cache_clear()

    def test_its_token_is_asked_for_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = tmp_path / "calls"
        cli = tmp_path / "az"
        cli.write_text(
            f'#!/bin/sh\necho "$@" >> {calls}\n'
            'echo \'{"accessToken": "a token", "loginServer": "team.azurecr.io"}\'\n'
        )
        cli.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        found = [registry_logins.login("team.azurecr.io/a", "azure", None) for _ in range(2)]
        assert found == [Login("00000000-0000-0000-0000-000000000000", "a token")] * 2
        (call,) = calls.read_text().splitlines()
        assert call.startswith("acr login --name team --expose-token")

    @pytest.mark.parametrize(
        ("answer", "says"),
        [
            (FileNotFoundError("az"), "install the Azure CLI, log in with `az login`"),
            (subprocess.CompletedProcess((), 1, "", "Please run az login"), "Please run az login"),
            (subprocess.CompletedProcess((), 0, "{}", ""), "update the Azure CLI"),
        ],
    )
    def test_a_login_that_it_does_not_give_is_told_with_what_to_do(
        self, answer: Any, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run(*_: Any, **__: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(subprocess, "run", run)
        with pytest.raises(TargetError, match=says):
            registry_logins.login("team.azurecr.io", "azure", None)


class _Handler(BaseHTTPRequestHandler):
    """A registry that wants a token, which it gives for a login, or for a refresh token."""

    asked: list[tuple[str, str, str | None]]
    busy: int
    realm: str

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(("POST", self.path, form))
        self._say(200, {"access_token": "given"} if "refresh_token=identity" in form else {})

    def _serve(self) -> None:
        authorization = self.headers["Authorization"]
        self.asked.append((self.command, self.path, authorization))
        url = urlsplit(self.path)
        if url.path == "/token":
            assert parse_qs(url.query)["scope"] == ["repository:team/a:pull"]
            known = authorization == f"Basic {_auth('me:pw')['auth']}"
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

    def _say(self, code: int, content: Any = None, headers: dict[str, str] | None = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def _serving(busy: int = 0, realm: str = "") -> Iterator[tuple[str, list[Any]]]:
    asked: list[Any] = []
    handler = type("Handler", (_Handler,), {"asked": asked, "busy": busy, "realm": realm})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


class TestAsking:
    """A registry that gives tokens."""

    def test_a_token_is_got_with_the_login(self) -> None:
        with _serving() as (server, _):
            api = RegistryApi(f"{server}/team", Login("me", "pw"), "log in")
            assert api.answers
            assert api.digest(f"{server}/team/a:1") == _DIGEST
            assert api.digest(f"{server}/team/a:missing") is None

    def test_a_token_is_got_with_an_identity_token(self) -> None:
        with _serving() as (server, asked):
            api = RegistryApi(server, Login("", "identity", is_identity_token=True), "log in")
            assert api.digest(f"{server}/team/a:1") == _DIGEST
        assert ("POST", "/token") in [each[:2] for each in asked]

    def test_a_login_that_it_refuses_is_told_with_what_to_do(self) -> None:
        with _serving() as (server, _):
            api = RegistryApi(server, Login("me", "wrong"), "log in anew")
            with pytest.raises(TargetError, match=r"gives no token \(401\); log in anew") as told:
                api.digest(f"{server}/team/a:1")
        assert "wrong" not in str(told.value)

    def test_a_busy_one_is_asked_again(self) -> None:
        with _serving(busy=2) as (server, _):
            api = RegistryApi(server, Login("me", "pw"), "log in")
            assert api.digest(f"{server}/team/a:1") == _DIGEST

    def test_one_that_stays_busy_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry_api, "LIMIT", 0.1)
        with _serving(busy=99) as (server, _):
            api = RegistryApi(server, None, "log in")
            assert not api.answers
            with pytest.raises(TargetError, match=r"has not answered within .* it is busy"):
                api.digest(f"{server}/team/a:1")

    def test_a_login_is_never_sent_where_it_could_be_read(self) -> None:
        with _serving(realm="http://elsewhere.example.org/token") as (server, _):
            api = RegistryApi(server, Login("me", "pw"), "log in")
            with pytest.raises(TargetError, match="where they would be readable"):
                api.digest(f"{server}/team/a:1")

    def test_a_netrc_does_not_take_the_logins_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login somebody password else\n")
        monkeypatch.setenv("NETRC", str(netrc))
        with _serving() as (server, _):
            api = RegistryApi(server, Login("me", "pw"), "log in")
            assert api.digest(f"{server}/team/a:1") == _DIGEST


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("localhost:5000", True),
        ("127.0.0.1", True),
        ("[::1]:5000", True),
        ("localhost.example.org", False),
        ("registry.example.org:5000", False),
    ],
)
def test_loopback_is_this_machine_alone(name: str, expected: bool) -> None:
    assert is_loopback(name) is expected


def test_the_login_that_a_killed_push_left_goes_with_the_next_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "cache_dir", lambda: tmp_path)
    login = tmp_path / "images" / "push-killed" / "config.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    seen: list[list[str]] = []

    def push(_self: Registry, _archive: Path, _reference: str, _runner: Any, work: Path) -> None:
        seen.append([each.name for each in work.parent.glob("push-*")])

    monkeypatch.setattr(Registry, "_push", push)
    Registry("example.org").load(tmp_path / "a.tar", "a:1", Row())
    assert not login.exists()
    [[alone]] = seen
    assert not (tmp_path / "images" / alone).exists()
