"""Private keys, and the kubeconfigs that name or hold those of the cluster's users."""

import base64
import secrets
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from clusters.embedded.layout import Layout
from core import files, kube


def generate() -> ec.EllipticCurvePrivateKey:
    """A new P-256 key: Kubernetes and etcd take it, and it is made in well under a millisecond."""
    return ec.generate_private_key(ec.SECP256R1())


def pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The key as it is written to a file, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        # Kubernetes reads a service account key in this form alone.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


def load(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a key that `pem` wrote.

    Raises:
        TypeError: the file holds a key of another kind.
    """
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{path} holds a {type(key).__name__}, not an elliptic curve key")
    return key


def encryption_config(layout: Layout) -> Path:
    """How the API server encrypts secrets at rest; holds the key."""
    return layout.pki / "encryption.yaml"


def ensure(layout: Layout) -> None:
    """Make the keys that sign service account tokens and encrypt secrets, once.

    They are never renewed: tokens and stored secrets would become unreadable.
    """
    if not layout.key("service-account").exists():
        key = generate()
        files.write(layout.key("service-account"), pem(key), mode=0o600)
    public = load(layout.key("service-account")).public_key()
    files.write(
        layout.pki / "service-account.pub",
        public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ).decode(),
        mode=0o644,
    )
    if not encryption_config(layout).exists():
        files.write(encryption_config(layout), _encryption(), mode=0o600)


def kubeconfig_path(layout: Layout, user: str) -> Path:
    """Where the kubeconfig of one component is kept."""
    return layout.config / f"{user}.kubeconfig"


def by_reference(layout: Layout, user: str) -> str:
    """A kubeconfig that names the user's certificate and key by path."""
    cluster = {"certificate-authority": str(layout.certificate("ca"))}
    credentials = {
        "client-certificate": str(layout.certificate(user)),
        "client-key": str(layout.key(user)),
    }
    return _document(layout, user, cluster, credentials)


def kubeconfig(layout: Layout, user: str) -> str:
    """A kubeconfig that works anywhere on this machine, with the key in it: a secret."""
    cluster = {"certificate-authority-data": _base64(layout.certificate("ca"))}
    credentials = {
        "client-certificate-data": _base64(layout.certificate(user)),
        "client-key-data": _base64(layout.key(user)),
    }
    return _document(layout, user, cluster, credentials)


def _encryption() -> str:
    key = {"name": "first", "secret": base64.b64encode(secrets.token_bytes(32)).decode()}
    # Identity comes second: secrets are written encrypted and still read if they are not.
    providers = [{"secretbox": {"keys": [key]}}, {"identity": {}}]
    return yaml.safe_dump(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": providers}],
        }
    )


def _document(
    layout: Layout, user: str, cluster: dict[str, str], credentials: dict[str, str]
) -> str:
    server = {"server": layout.api_url, **cluster}
    return kube.kubeconfig(layout.node, server, credentials, user_name=user)


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
