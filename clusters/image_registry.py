"""Settings for a cluster's images: prebuilt images and a private registry."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pulumi
from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from clusters.cluster import REGISTRY_LOGIN
from core.fields import CONFIG, Image, texts
from core.manifests import Manifest
from images.targets.registry_login import DOCKER_HUB, config, host, stored_login
from images.targets.target import TargetError

_text = texts(__file__)
Server = Annotated[str, _text("server")]
Credentials = Annotated[str, _text("credentials")]


def _private(reference: str) -> str:
    # A first component without a dot or a port is a Docker Hub user name:
    # https://github.com/distribution/reference/blob/v0.6.0/normalize.go (splitDockerDomain)
    name = host(reference)
    is_host = "." in name or ":" in name or name == "localhost"
    if name in DOCKER_HUB or not is_host:
        raise ValueError(
            "an image in a private registry, starting with the registry's host; this one is on "
            "Docker Hub, a public registry"
        )
    return reference


ByDigest = Annotated[str, _text("byDigest"), AfterValidator(_private)]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Images:
    """Prebuilt images that the cluster's nodes can pull.

    Other images are built and pushed to the `registry`, if there is one.

    Args:
        trainer: The image for jobs that do not set one.
        trainer_cuda: The same for jobs with GPUs.
        training_operator: The training operator's image, if the stack installs it.
        tcp_wait: The image for the container that waits for a job's master, in the same case.
        mlflow: The tracking server's image, if the stack installs it.
        postgres: The image for the tracking server's PostgreSQL, in the same case.
    """

    trainer: Image | None = None
    trainer_cuda: Image | None = None
    training_operator: Image | None = None
    tcp_wait: Image | None = None
    mlflow: Image | None = None
    postgres: Image | None = None

    @property
    def prebuilt(self) -> dict[str, str]:
        """The images that are set, by their keys in the stack's YAML."""
        return {to_camel(key): image for key, image in asdict(self).items() if image is not None}

    def target(self, pushed: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return `Cluster.image_target`; `pushed` is the target for other images, or None."""
        if pushed is None or not self.prebuilt:
            return pushed or {"kind": "there", **self.prebuilt}
        return {"kind": "there", **self.prebuilt, "otherwise": pushed}


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Registry:
    """A private registry.

    Args:
        server: The registry's address, with a path.
        credentials: A docker config.json. Only its entry for this server is used: to push, and
            as a Secret for the nodes to pull. By default a push uses docker's or podman's login,
            and the nodes get no Secret.
        mirrors: Copies of public images: each public reference, and the private one.
    """

    server: Server
    credentials: Credentials | None = None
    mirrors: dict[str, ByDigest] = Field(default_factory=dict)

    @property
    def host(self) -> str:
        """The registry's host and port."""
        return host(self.server)

    def has(self, image: str) -> bool:
        """Return whether an image is in the registry, or has a mirror there."""
        return image in self.mirrors or host(image) == self.host

    def target(self) -> dict[str, Any]:
        """Return `Cluster.image_target`."""
        credentials = {} if self.credentials is None else {"credentials": self.credentials}
        return {"kind": "registry", "server": self.server, "login": "docker", **credentials}

    def pull_secret(self) -> str | None:
        """Return `Cluster.pull_secret`, or None without `credentials`. May raise `RunError`."""
        if self.credentials is None:
            return None
        key, file = "slipway:cluster.registry.credentials", Path(self.credentials).expanduser()
        try:
            # A helper's login may expire after an hour, but nodes pull at any time.
            login = stored_login(self.server, file, ask_helpers=False)
        except TargetError as error:
            raise pulumi.RunError(f"{key}: {error}") from None
        if login is None:
            raise pulumi.RunError(
                f"{key}: {file} contains no login for {self.server} (nodes can't use one that a "
                "credential helper keeps); set the path of the config.json that "
                f"`docker --config DIR login {self.host}` writes to a new directory DIR"
            )
        return json.dumps(config(self.server, login))


def reached_alone(options: Any) -> Registry | None:
    """Return the only registry that a disconnected cluster's nodes can reach, or None."""
    registry: Registry | None = getattr(options, "registry", None)
    return registry if getattr(options, "disconnected", None) else None


def pull_secret(namespace: str, login: str) -> Manifest:
    """Return the Secret that nodes use to pull from a private registry."""
    encoded = base64.b64encode(login.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": REGISTRY_LOGIN, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": pulumi.Output.secret(encoded)},
    }


def with_pull_secret(
    manifests: list[Manifest], namespace: str, login: str | None
) -> list[Manifest]:
    """Return a namespace's objects plus the pull secret, with its service accounts using that."""
    # https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#add-imagepullsecrets-to-a-service-account
    if login is None:
        return manifests
    pulling = {"imagePullSecrets": [{"name": REGISTRY_LOGIN}]}
    return [
        pull_secret(namespace, login),
        *({**each, **(pulling if each["kind"] == "ServiceAccount" else {})} for each in manifests),
    ]
