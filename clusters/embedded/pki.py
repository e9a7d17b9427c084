"""The cluster's certificates and keys, and the kubeconfigs that refer to or contain them.

For the three CAs, see https://kubernetes.io/docs/setup/best-practices/certificates/
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from string import Template
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID

from clusters.embedded.layout import API_SERVICE, DNS_DOMAIN, Layout
from core import files, kube, manifests

AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
CLOCK_SKEW = timedelta(minutes=5)
_UNUSED = (
    "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "encipher_only", "decipher_only",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """The contents of a certificate to issue; `usages` are names in `ExtendedKeyUsageOID`."""

    name: str
    subject: str
    authority: str = "ca"
    usages: Sequence[str] = ()
    hosts: Sequence[str] = ()


def requests(layout: Layout) -> list[Request]:
    """Return all certificates that the cluster needs, each after the CA that signs it."""
    (table,) = manifests.rendered(
        Path(__file__).with_name("certificates.yaml"),
        api_service=str(API_SERVICE),
        dns_domain=DNS_DOMAIN,
        node=layout.node,
        node_address=str(layout.node_address),
    )
    return [Request(name, **fields) for name, fields in table.items()]


def ensure(layout: Layout) -> None:
    """Create missing certificates and keys, and renew those that expire soon or do not match."""
    files.private_directory(layout.pki)
    for request in requests(layout):
        if problem(layout, request) is not None:
            _issue(layout, request)
    # These two keys are never renewed: tokens would become invalid, and stored secrets unreadable.
    signing = layout.key("service-account")
    if _load_key(signing) is None:
        _write_new_key(signing)
    if not layout.encryption.exists():
        secret = base64.b64encode(secrets.token_bytes(32)).decode()
        config = Template(Path(__file__).with_name("encryption.yaml").read_text())
        files.write(layout.encryption, config.substitute(secret=secret), mode=0o600)


def problems(layout: Layout) -> list[str]:
    """Return a message for each certificate that `ensure` would renew."""
    checked = [(request.name, problem(layout, request)) for request in requests(layout)]
    return [f"{name}: {reason}" for name, reason in checked if reason is not None]


def problem(layout: Layout, request: Request) -> str | None:
    """Return why a certificate must be renewed, or None if it is valid."""
    certificate = _load(layout, request.name)
    authority = _load(layout, request.authority)
    if certificate is None or authority is None:
        return "missing"
    key = _load_key(layout.key(request.name))
    if key is None or key.public_key() != certificate.public_key():
        return "its key is missing or does not match"
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    # A start in the future means that the clock was ahead when it was created.
    if not begins <= datetime.now(UTC) <= ends - RENEW_BEFORE:
        return f"valid only from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}"
    subject = x509.Name.from_rfc4514_string(request.subject)
    if certificate.subject != subject or _hosts(certificate) != set(request.hosts):
        return "issued for a different name or address"
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError):
        return "signed by a CA that has been replaced"
    return None


def kubeconfig(layout: Layout, user: str, *, by_path: bool = False) -> str:
    """Return a user's kubeconfig: a secret that contains the key, unless `by_path` is set."""
    certificate, key = str(layout.certificate(user)), str(layout.key(user))
    cluster = {"server": layout.api_url, "certificate-authority": str(layout.certificate("ca"))}
    login = {"client-certificate": certificate, "client-key": key}
    if not by_path:
        cluster, login = kube.self_contained(cluster), kube.self_contained(login)
    return kube.kubeconfig(layout.node, cluster, login, user_name=user)


def _issue(layout: Layout, request: Request) -> None:
    """Create a certificate and its key; those of the CA that signs it must already exist."""
    signs = request.authority == request.name
    key = _write_new_key(layout.key(request.name)).public_key()
    signer = _load_key(layout.key(request.authority))
    subject, now = x509.Name.from_rfc4514_string(request.subject), datetime.now(UTC)
    authority = None if signs else _load(layout, request.authority)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=signs, **dict.fromkeys(_UNUSED, False)
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + (AUTHORITY_LIFE if signs else LIFE))
        .add_extension(x509.BasicConstraints(signs, 0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
        # Python 3.13 requires these two.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if request.usages:
        usages = [getattr(ExtendedKeyUsageOID, name) for name in request.usages]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if request.hosts:
        names = [_general_name(host) for host in request.hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = builder.sign(signer, SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    files.write(layout.certificate(request.name), pem, mode=0o644)


def _write_new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    # Kubernetes and etcd accept P-256, and generating a key takes less than a millisecond.
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        # Kubernetes reads service account keys only in this format.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    files.write(path, pem.decode(), mode=0o600)
    return key


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts(certificate: x509.Certificate) -> set[str]:
    values = (extension.value for extension in certificate.extensions)
    names = (each for each in values if isinstance(each, x509.SubjectAlternativeName))
    return {str(name.value) for each in names for name in each}


def _load(layout: Layout, name: str) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(layout.certificate(name).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _load_key(path: Path) -> Any:
    """Return the private key in a file, or None if the file is missing or the key is invalid."""
    try:
        return serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (FileNotFoundError, ValueError):
        return None
