"""Private keys, and the kubeconfigs that name or hold those of the cluster's users."""

import base64
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from clusters.embedded.layout import Layout
from core import files, kube


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new P-256 key: Kubernetes and etcd take it, and it is made in well under a millisecond."""
    return ec.generate_private_key(ec.SECP256R1())


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a key to a file of its owner's alone, not encrypted."""
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        # Kubernetes reads a service account key in this form alone.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    files.write(path, pem.decode(), mode=0o600)


def read_key(path: Path) -> Any:
    """Read a key that `write_key` wrote."""
    return serialization.load_pem_private_key(path.read_bytes(), password=None)


def encryption_config(layout: Layout) -> Path:
    """How the API server encrypts secrets at rest; holds the key."""
    return layout.pki / "encryption.yaml"


def ensure(layout: Layout) -> None:
    """Make the keys that sign service account tokens and encrypt secrets, once.

    They are never renewed: tokens and stored secrets would become unreadable.
    """
    signing = layout.key("service-account")
    if not signing.exists():
        write_key(signing, new_key())
    public = (
        read_key(signing)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    files.write(layout.pki / "service-account.pub", public.decode(), mode=0o644)
    if not encryption_config(layout).exists():
        files.write(encryption_config(layout), _encryption(), mode=0o600)


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


def by_reference(layout: Layout, user: str) -> str:
    """A kubeconfig that names the user's certificate and key by path."""
    return _kubeconfig(layout, user, "", str)


def kubeconfig(layout: Layout, user: str) -> str:
    """A kubeconfig that works anywhere on this machine, with the key in it: a secret."""
    return _kubeconfig(
        layout, user, "-data", lambda file: base64.b64encode(file.read_bytes()).decode()
    )


def _kubeconfig(layout: Layout, user: str, suffix: str, value: Callable[[Path], str]) -> str:
    cluster = {
        "server": layout.api_url,
        f"certificate-authority{suffix}": value(layout.certificate("ca")),
    }
    login = {
        f"client-certificate{suffix}": value(layout.certificate(user)),
        f"client-key{suffix}": value(layout.key(user)),
    }
    return kube.kubeconfig(layout.node, cluster, login, user_name=user)
