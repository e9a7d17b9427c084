"""The embedded cluster's keys and certificates."""

import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from clusters.embedded import pki
from clusters.embedded.layout import Layout
from clusters.embedded.pki import requests


def _load(layout: Layout, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(layout.certificate(name).read_bytes())


def _renewed(layout: Layout) -> set[str]:
    """Renew what has to be, and return the names of the files that changed."""
    before = {path: path.read_bytes() for path in layout.pki.iterdir()}
    pki.ensure(layout)
    return {path.name for path in layout.pki.iterdir() if path.read_bytes() != before.get(path)}


def test_keys_are_their_owners_alone(layout: Layout) -> None:
    secret = [*layout.pki.glob("*.key"), layout.encryption]
    assert len(secret) == len(requests(layout)) + 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert stat.S_IMODE(layout.pki.stat().st_mode) == 0o700


def test_a_certificate_can_be_used_only_as_meant(layout: Layout) -> None:
    client = _load(layout, "admin").extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    server = _load(layout, "apiserver").extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(client.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert list(server.value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    # Not the group that no binding limits.
    groups = _load(layout, "admin").subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [group.value for group in groups] == ["slipway:admins"]


@pytest.mark.parametrize("name", ["ca", "scheduler"])
def test_a_certificate_of_a_clock_that_ran_ahead_is_renewed(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pki, "CLOCK_SKEW", timedelta(days=-1))
        layout.certificate(name).unlink()
        pki.ensure(layout)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert pki.problems(layout)[0].startswith(f"{name}: valid only from {tomorrow:%Y-%m-%d} to ")
    pki.ensure(layout)
    assert pki.problems(layout) == []
    assert _load(layout, name).not_valid_before_utc < datetime.now(UTC)


def test_an_expiring_one_is_renewed_alone(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pki, "LIFE", timedelta(days=29))
        layout.certificate("scheduler").unlink()
        pki.ensure(layout)
    assert [problem.split(":")[0] for problem in pki.problems(layout)] == ["scheduler"]
    assert _renewed(layout) == {"scheduler.crt", "scheduler.key"}
    left = _load(layout, "scheduler").not_valid_after_utc - datetime.now(UTC)
    assert left > timedelta(days=364)
    assert _renewed(layout) == set()


def test_a_new_authority_reissues_its_certificates(layout: Layout) -> None:
    layout.key("etcd-ca").unlink()
    changed = {name.rsplit(".", 1)[0] for name in _renewed(layout)}
    assert changed == {"etcd-ca", "etcd", "apiserver-etcd-client"}
    assert pki.problems(layout) == []


@pytest.mark.parametrize(
    ("name", "content"), [("ca", "foreign"), ("scheduler", ""), ("scheduler", "x")]
)
def test_a_key_of_another_certificate_and_a_damaged_certificate_are_renewed(
    layout: Layout, name: str, content: str
) -> None:
    text = layout.key("admin").read_text() if content == "foreign" else content
    layout.key(name).write_text(text)
    layout.certificate("kubelet").write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    told = f"{name}: its key is missing or does not match"
    assert {told, "kubelet: missing"} <= {*pki.problems(layout)}
    pki.ensure(layout)
    assert pki.problems(layout) == []


def test_keys_that_protect_data_are_never_replaced_unless_they_are_empty(layout: Layout) -> None:
    layout.key("service-account").write_text("")  # it signs no token
    pki.ensure(layout)
    kept = [layout.encryption, layout.key("service-account")]
    before = [path.read_bytes() for path in kept]
    assert b"PRIVATE KEY" in before[1]
    for path in layout.pki.iterdir():
        if path not in kept:
            path.unlink()
    pki.ensure(layout)
    assert [path.read_bytes() for path in kept] == before
