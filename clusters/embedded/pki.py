"""The cluster's own keys and certificates. The cluster trusts no others.

Three authorities, as Kubernetes' "PKI certificates and requirements" has them: one for
the API and the kubelet, one for etcd (so that a kubelet's certificate opens no database), one for
the API server as a proxy in front of extension servers.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from clusters.embedded import credentials
from clusters.embedded.layout import API_SERVICE, DNS_DOMAIN, Layout
from core import files

AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
CLOCK_SKEW = timedelta(minutes=5)

AUTHORITIES = {
    "ca": "slipway-ca",
    "etcd-ca": "slipway-etcd-ca",
    "front-proxy-ca": "slipway-front-proxy-ca",
}
"""File name and common name of each authority."""
_LOOPBACK = ("localhost", "127.0.0.1")
_USAGES = {
    "client": [ExtendedKeyUsageOID.CLIENT_AUTH],
    "server": [ExtendedKeyUsageOID.SERVER_AUTH],
    "both": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
}


@dataclass(frozen=True)
class Request:
    """The content of one certificate. To Kubernetes the common name is the user."""

    name: str
    common_name: str
    usage: Literal["client", "server", "both"]
    authority: str = "ca"
    organization: str | None = None
    """To Kubernetes, the user's group."""
    hosts: tuple[str, ...] = ()


def requests(layout: Layout) -> list[Request]:
    """Every certificate that the cluster needs, beside its authorities."""
    node, address = layout.node, str(layout.node_address)
    api_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    api_hosts = (*api_names, f"{api_names[-1]}.{DNS_DOMAIN}", node, str(API_SERVICE), address)
    return [
        Request("etcd", "etcd", "both", "etcd-ca", hosts=_LOOPBACK),
        Request("apiserver-etcd-client", "kube-apiserver", "client", "etcd-ca"),
        Request("apiserver", "kube-apiserver", "server", hosts=api_hosts),
        Request("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "client"),
        Request("front-proxy-client", "front-proxy-client", "client", "front-proxy-ca"),
        # Both serve, too. Without a certificate each would make RSA keys first, at every start.
        Request("controller-manager", "system:kube-controller-manager", "both", hosts=_LOOPBACK),
        Request("scheduler", "system:kube-scheduler", "both", hosts=_LOOPBACK),
        Request("kube-proxy", "system:kube-proxy", "client"),
        Request("kubelet-client", f"system:node:{node}", "client", organization="system:nodes"),
        Request("kubelet", f"system:node:{node}", "server", hosts=(node, address)),
        Request("provisioner", "slipway:volume-provisioner", "client"),
        # Makes the bindings that everybody else needs, so it can't depend on one itself.
        Request("bootstrap", "slipway:bootstrap", "client", organization="system:masters"),
        Request("admin", "slipway:admin", "client", organization="slipway:admins"),
    ]


def ensure(layout: Layout) -> None:
    """Make what is missing and renew what is about to expire or no longer fits."""
    files.private_directory(layout.pki)
    for name, common_name in AUTHORITIES.items():
        if not _authority_holds(layout, name):
            _make_authority(layout, name, common_name)
    for request in requests(layout):
        if problem(layout, request) is not None:
            _issue(layout, request)
    credentials.ensure(layout)


def problems(layout: Layout) -> list[str]:
    """What `ensure` would put right, in words; empty when all is well."""
    authorities = [
        f"{name}: missing or about to expire"
        for name in AUTHORITIES
        if not _authority_holds(layout, name)
    ]
    return authorities + [
        f"{request.name}: {found}"
        for request in requests(layout)
        if (found := problem(layout, request)) is not None
    ]


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


def _authority_holds(layout: Layout, name: str) -> bool:
    certificate = _load(layout, name)
    return (
        certificate is not None
        and layout.key(name).exists()
        and certificate.not_valid_after_utc - datetime.now(UTC) > RENEW_BEFORE
    )


def _make_authority(layout: Layout, name: str, common_name: str) -> None:
    key = credentials.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(key.public_key(), subject, subject, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    _store(layout, name, key, builder.sign(key, SHA256()))


def _issue(layout: Layout, request: Request) -> None:
    authority = _load(layout, request.authority)
    if authority is None:
        raise RuntimeError(f"no authority {request.authority!r} in {layout.pki}")
    key = credentials.generate()
    builder = (
        _builder(key.public_key(), _subject(request), authority.subject, LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USAGES[request.usage]), critical=False)
    )
    if request.hosts:
        names = [_general_name(host) for host in request.hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(credentials.load(layout.key(request.authority)), SHA256())
    _store(layout, request.name, key, signed)


def _builder(
    public_key: ec.EllipticCurvePublicKey, subject: x509.Name, issuer: x509.Name, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


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
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in found}


def _load(layout: Layout, name: str) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(layout.certificate(name).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _store(
    layout: Layout, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    files.write(layout.key(name), credentials.pem(key), mode=0o600)
    files.write(
        layout.certificate(name), certificate.public_bytes(Encoding.PEM).decode(), mode=0o644
    )
