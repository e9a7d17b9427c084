"""A kubeconfig's content is enough to connect, and its key stays off the disk."""

import base64
import tempfile
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

from core.kube import connect

# The client reads these only when it opens a connection.
_CREDENTIALS = {
    "client-certificate-data": base64.b64encode(b"a certificate").decode(),
    "client-key-data": base64.b64encode(b"a key").decode(),
}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def kubeconfig(server: str = "https://127.0.0.1:6443") -> str:
    authority = base64.b64encode(b"an authority").decode()
    cluster = {"server": server, "certificate-authority-data": authority}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": _CREDENTIALS}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def test_credentials_need_no_file_to_read(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes.client.rest.RESTClientObject", MagicMock())
    configuration = connect(kubeconfig()).configuration
    assert Path(configuration.key_file or "").read_bytes() == b"a key"
    assert Path(configuration.cert_file or "").read_bytes() == b"a certificate"
    assert Path(configuration.ssl_ca_cert or "").read_bytes() == b"an authority"
    assert list(temporary.iterdir()) == []


def test_connecting_again_opens_no_more_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes.client.rest.RESTClientObject", MagicMock())
    paths = {connect(kubeconfig()).configuration.key_file for _ in range(3)}
    assert len(paths) == 1
