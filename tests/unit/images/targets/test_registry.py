"""A registry that gives tokens, is busy or refuses; a push leaves no login on disk."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from core import files
from core.http import is_loopback
from core.toolchain import ToolMissing
from images.build import engines, runner
from images.targets.registry import Registry
from images.targets.registry_login import Login, config
from images.targets.target import TargetError
from tests.doubles.serving import in_background
from tests.unit.images.objects import Listener

_DIGEST = f"sha256:{'2' * 64}"
_ME = Login.from_credentials("me", "pw")
_Make = Callable[[str, Login], Registry]


def _auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


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
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with in_background(server):
        yield f"127.0.0.1:{server.server_port}", asked


@pytest.fixture
def registry(tmp_path: Path) -> _Make:
    """Return a registry by its server and its login."""

    def made(server: str, login: Login) -> Registry:
        file = tmp_path / "config.json"
        file.write_text(json.dumps(config(server, login)))
        return Registry(server, credentials=str(file))

    return made


class TestAsking:
    """A registry that gives tokens."""

    def test_a_token_is_got_with_the_login(self, registry: _Make) -> None:
        with _serving() as (server, _):
            target = registry(f"{server}/team", _ME)
            assert target.is_up
            assert target.digest(f"{server}/team/a:1") == _DIGEST
            assert target.digest(f"{server}/team/a:missing") is None

    def test_a_token_is_got_with_an_identity_token(self, registry: _Make) -> None:
        with _serving() as (server, asked):
            target = registry(server, Login.from_credentials("<token>", "identity"))
            assert target.digest(f"{server}/team/a:1") == _DIGEST
        assert ("POST", "/token") in [each[:2] for each in asked]

    def test_a_refused_login_suggests_docker_login(self, registry: _Make) -> None:
        with _serving() as (server, _):
            target = registry(server, Login.from_credentials("me", "wrong"))
            command = rf"`docker --config .* login {server}`"
            says = rf"did not issue a token \(401\); log in with {command}"
            with pytest.raises(TargetError, match=says) as told:
                target.digest(f"{server}/team/a:1")
        assert "wrong" not in str(told.value)

    def test_a_busy_one_is_asked_again(self, registry: _Make) -> None:
        with _serving(busy=2) as (server, _):
            assert registry(server, _ME).digest(f"{server}/team/a:1") == _DIGEST

    def test_a_busy_one_is_given_up(self, registry: _Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("images.targets.registry.LIMIT", 0.1)
        with _serving(busy=99) as (server, _):
            target = registry(server, _ME)
            assert not target.is_up
            with pytest.raises(TargetError, match=r"did not respond within .* it is busy"):
                target.digest(f"{server}/team/a:1")

    def test_a_login_is_never_sent_where_it_could_be_read(self, registry: _Make) -> None:
        with _serving(realm="http://elsewhere.example.org/token") as (server, _):
            target = registry(server, _ME)
            with pytest.raises(TargetError, match="where others could read them"):
                target.digest(f"{server}/team/a:1")

    def test_a_netrc_does_not_take_the_logins_place(
        self, registry: _Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login somebody password else\n")
        monkeypatch.setenv("NETRC", str(netrc))
        with _serving() as (server, _):
            assert registry(server, _ME).digest(f"{server}/team/a:1") == _DIGEST


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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images = tmp_path / "slipway" / "images"
    login = images / "work" / "killed" / "config.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    seen: list[list[Path]] = []

    def choose(_storage: Path, work: Path) -> engines.Engine:
        seen.append(list(work.iterdir()))
        raise ToolMissing("buildah")

    monkeypatch.setattr(engines, "choose", choose)
    with pytest.raises(ToolMissing):
        Registry("example.org").load(tmp_path / "a.tar", "a:1", Listener())
    assert not login.exists()
    assert seen == [[]]
    assert not (images / "work").exists()


@pytest.mark.parametrize("engine", ["docker", "buildah"])
def test_a_push_waits_for_as_long_as_another_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made, waits, takes = engines.Engine(engine, (engine,)), list[float](), list[float]()
    monkeypatch.setattr(engines, "choose", lambda *_: made)
    monkeypatch.setattr(engines.Engine, "load", lambda *_: ("load",))
    monkeypatch.setattr("images.targets.registry.answer", lambda *_: None)
    monkeypatch.setattr(Registry, "_config", lambda _self, work: work / "config.json")

    def run(_self: object, _title: str, _command: object, limit: float = runner.LIMIT) -> None:
        takes.append(limit)

    @contextmanager
    def locked(_file: Path, *, limit: float = files.LIMIT, **_rest: object) -> Iterator[None]:
        waits.append(limit)
        yield

    monkeypatch.setattr(runner.Runner, "run", run)
    monkeypatch.setattr(files, "locked", locked)
    (tmp_path / "slipway" / "images").mkdir(parents=True)
    Registry("example.org").load(tmp_path / "a.tar", "a:1", Listener())
    assert max(takes) == runner.PUSH_LIMIT
    assert waits[0] >= sum(takes)
