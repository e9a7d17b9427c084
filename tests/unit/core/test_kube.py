"""A kubeconfig's content is enough to connect, and its key stays off the disk."""

import base64
import json
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes.config import ConfigException

from clusters.embedded import pki
from clusters.embedded.layout import Layout
from core import kube
from tests.unit.fake_api import FakeApi, served

_EXEC = "client.authentication.k8s.io/v1"
_VERSION = kube.Request("GET", "/version")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server with a certificate of its own, which lets in clients with one of its own."""
    layout = Layout(tmp_path_factory.mktemp("pki"))
    pki.ensure(layout)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=layout.certificate("ca"))
    tls.load_cert_chain(layout.certificate("apiserver"), layout.key("apiserver"))
    tls.verify_mode = ssl.CERT_REQUIRED
    api = FakeApi()
    api.says("GET", "/version", {"major": "1"})
    with served(api, tls):
        document = yaml.safe_load(pki.kubeconfig(layout, "admin"))
        server = f"https://127.0.0.1:{api.port}"
        document["clusters"][0]["cluster"] |= {"server": server, "tls-server-name": "kubernetes"}
        yield yaml.safe_dump(document)


def test_connecting_leaves_no_file_opens_none_twice_and_leaves_the_tls_context_as_it_is(
    kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python crashes if certificates are loaded while another thread is in a handshake."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = len([*Path("/proc/self/fd").iterdir()])
    clients = [kube.connect(kubeconfig) for _ in range(3)]
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    for load in ("load_cert_chain", "load_default_certs", "load_verify_locations"):
        monkeypatch.setattr(ssl.SSLContext, load, None, raising=False)
    # The server closes each connection after its response.
    for _ in range(2):
        assert kube.ask(clients[0], _VERSION, limit=10.0) == {"major": "1"}
    assert list(tmp_path.iterdir()) == []


def test_a_token_in_a_file_is_read_for_each_request(tmp_path: Path) -> None:
    """Whoever renews it may be replacing the file at that moment."""
    file = tmp_path / "token"
    file.write_text("first\n")
    user = {"tokenFile": str(file)}
    settings = kube.connect(kube.kubeconfig("x", {"server": "http://x"}, user)).configuration
    assert settings.get_api_key_with_prefix("BearerToken") == "Bearer first"
    file.write_text("second")
    assert settings.get_api_key_with_prefix("BearerToken") == "Bearer second"
    file.unlink()
    assert settings.get_api_key_with_prefix("BearerToken") == "Bearer second"


def test_a_certificate_that_is_none_is_reported_before_any_request(kubeconfig: str) -> None:
    document = yaml.safe_load(kubeconfig)
    document["users"][0]["user"]["client-key-data"] = "bm8ga2V5"
    with pytest.raises(ConfigException, match="the kubeconfig's certificates can't be loaded"):
        kube.connect(yaml.safe_dump(document))


def test_a_certificate_of_a_login_command_is_renewed_in_time_and_its_key_is_in_no_file(
    kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may take longer than a certificate is valid."""
    answer, logins, temporary = (tmp_path / name for name in ("answer", "logins", "temporary"))
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    document = yaml.safe_load(kubeconfig)
    user = document["users"][0]["user"]
    status = {
        f"client{kind}Data": base64.b64decode(user[f"client-{kind.lower()}-data"]).decode()
        for kind in ("Certificate", "Key")
    }
    status["expirationTimestamp"] = "YEAR-01-01T00:00:00Z"
    answer.write_text(json.dumps({"apiVersion": _EXEC, "kind": "", "status": status}))
    script = f"echo >>{logins}; sed s/YEAR/$(wc -l <{logins})999/ {answer}"
    login = {"apiVersion": _EXEC, "command": "sh", "args": ["-c", script]}
    document["users"][0]["user"] = {"exec": login}
    client = kube.connect(yaml.safe_dump(document))
    for _ in range(2):
        assert kube.ask(client, _VERSION, limit=10.0) == {"major": "1"}
        assert logins.read_text() == "\n\n", "that of 1999 was replaced by that of 2999"
    assert list(temporary.iterdir()) == []
