"""The cluster's own certificates. The cluster trusts no others.

Three authorities, as Kubernetes' "PKI certificates and requirements" has them: one for
the API and the kubelet, one for etcd (so that a kubelet's certificate opens no database), one for
the API server as a proxy in front of extension servers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from clusters.embedded import credentials, documents
from clusters.embedded.layout import API_SERVICE, DNS_DOMAIN, Layout
from core import files

AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
CLOCK_SKEW = timedelta(minutes=5)

_USAGES = {
    "authority": [],
    "client": [ExtendedKeyUsageOID.CLIENT_AUTH],
    "server": [ExtendedKeyUsageOID.SERVER_AUTH],
    "both": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
}


@dataclass(frozen=True)
class Request:
    """The content of one certificate. To Kubernetes the common name is the user."""

    name: str
    common_name: str
    usage: Literal["authority", "client", "server", "both"]
    authority: str = "ca"
    """The name of the one that signs it; an authority signs its own."""
    organization: str | None = None
    """To Kubernetes, the user's group."""
    hosts: Sequence[str] = ()


def requests(layout: Layout) -> list[Request]:
    """Every certificate that the cluster needs, each after its authority."""
    (table,) = documents.load("certificates.yaml")
    values = {**vars(layout), "api_service": API_SERVICE, "dns_domain": DNS_DOMAIN}
    return [Request(name, **fields) for name, fields in documents.fill(table, values).items()]


def ensure(layout: Layout) -> None:
    """Make what is missing and renew what is about to expire or no longer fits."""
    files.private_directory(layout.pki)
    for request in requests(layout):
        if problem(layout, request) is not None:
            _issue(layout, request)
    credentials.ensure(layout)


def problems(layout: Layout) -> list[str]:
    """What `ensure` would put right, in words; empty when all is well."""
    found = [(request.name, problem(layout, request)) for request in requests(layout)]
    return [f"{name}: {reason}" for name, reason in found if reason is not None]


def problem(layout: Layout, request: Request) -> str | None:
    """Why a certificate can't be used as it is, or None."""
    certificate = _load(layout, request.name)
    authority = _load(layout, request.authority)
    if certificate is None or authority is None or not layout.key(request.name).exists():
        return "missing"
    if certificate.not_valid_after_utc - datetime.now(UTC) < RENEW_BEFORE:
        return f"expires {certificate.not_valid_after_utc:%Y-%m-%d}"
    if certificate.subject != _subject(request) or _hosts(certificate) != set(request.hosts):
        return "made for another name or address"
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError):
        return "signed by an authority that has been replaced"
    return None


def _issue(layout: Layout, request: Request) -> None:
    signs = request.usage == "authority"
    key = credentials.new_key()
    now = datetime.now(UTC)
    authority = next(each for each in requests(layout) if each.name == request.authority)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(request))
        .issuer_name(_subject(authority))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + (AUTHORITY_LIFE if signs else LIFE))
        .add_extension(x509.BasicConstraints(signs, 0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
    )
    if usages := _USAGES[request.usage]:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if request.hosts:
        names = [_general_name(host) for host in request.hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signer = key if signs else credentials.read_key(layout.key(request.authority))
    certificate = builder.sign(signer, SHA256()).public_bytes(Encoding.PEM).decode()
    credentials.write_key(layout.key(request.name), key)
    files.write(layout.certificate(request.name), certificate, mode=0o644)


def _subject(request: Request) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, request.common_name)]
    if request.organization is not None:
        group = x509.NameAttribute(NameOID.ORGANIZATION_NAME, request.organization)
        attributes.insert(0, group)
    return x509.Name(attributes)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts(certificate: x509.Certificate) -> set[str]:
    return {
        str(name.value)
        for extension in certificate.extensions
        if isinstance(extension.value, x509.SubjectAlternativeName)
        for name in extension.value
    }


def _load(layout: Layout, name: str) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(layout.certificate(name).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
