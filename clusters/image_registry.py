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
from core.manifests import Manifest, owned
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
            "Docker Hub, which is public"
        )
    return reference


ByDigest = Annotated[str, _text("byDigest"), AfterValidator(_private)]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Images:
    """Prebuilt images that the cluster's nodes can pull.

    Other images are built and pushed to the `registry`, if there is one.

    Args:
        trainer: The image for jobs that do not set one.
        trainer_cuda: The image for jobs with GPUs that do not set one.
        training_operator: The training operator's image, if the stack installs the operator.
        tcp_wait: The image for the operator's init container, which waits for a job's master.
        mlflow: The tracking server's image, if the stack installs the server.
        postgres: The image for the tracking server's PostgreSQL database.
    """

    trainer: Image | None = None
    trainer_cuda: Image | None = None
    training_operator: Image | None = None
    tcp_wait: Image | None = None
    mlflow: Image | None = None
    postgres: Image | None = None

    @property
    def prebuilt(self) -> dict[str, str]:
        """The images that are set, keyed as in the stack's YAML."""
        return {to_camel(key): image for key, image in asdict(self).items() if image is not None}

    def target(self, pushed: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return the value for `Cluster.image_target`; `pushed` is the target for other images."""
        if pushed is None or not self.prebuilt:
            return pushed or {"kind": "there", **self.prebuilt}
        return {"kind": "there", **self.prebuilt, "otherwise": pushed}


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Registry:
    """A private registry.

    Args:
        server: The registry's address, optionally with a path.
        credentials: Path of a docker config.json. Its entry for this server is used to push and,
            in a Secret, for the nodes to pull. By default, pushes use docker's or podman's login,
            and nodes get no Secret.
        mirrors: Copies of public images: a map from public to private references.
    """

    server: Server
    credentials: Credentials | None = None
    mirrors: dict[str, ByDigest] = Field(default_factory=dict)

    @property
    def host(self) -> str:
        """The registry's host and port."""
        return host(self.server)

    def has(self, image: str) -> bool:
        """Return whether an image is in this registry or has a mirror in it."""
        return image in self.mirrors or host(image) == self.host

    def target(self) -> dict[str, Any]:
        """Return the value for `Cluster.image_target`."""
        credentials = {} if self.credentials is None else {"credentials": self.credentials}
        return {"kind": "registry", "server": self.server, "login": "docker", **credentials}

    def pull_secret(self) -> str | None:
        """Return the docker config.json for nodes, or None if `credentials` is not set.

        Raises `RunError` if the file contains no login that nodes can use.
        """
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
                f"{key}: {file} contains no login for {self.server} (nodes can't use a login that "
                "a credential helper stores); set this to the path of the config.json that "
                f"`docker --config DIR login {self.host}` writes to a new directory DIR"
            )
        return json.dumps(config(self.server, login))


def reached_alone(options: Any) -> Registry | None:
    """Return the only registry that a disconnected cluster can reach, or None if connected."""
    registry: Registry | None = getattr(options, "registry", None)
    return registry if getattr(options, "disconnected", None) else None


def pull_secret(namespace: str, login: str) -> Manifest:
    """Return the Secret that nodes use to pull from a private registry."""
    encoded = base64.b64encode(login.encode()).decode()
    data = {".dockerconfigjson": pulumi.Output.secret(encoded)}
    secret = owned("Secret", REGISTRY_LOGIN, namespace)
    return {**secret, "type": "kubernetes.io/dockerconfigjson", "data": data}


def with_pull_secret(
    manifests: list[Manifest], namespace: str, login: str | None
) -> list[Manifest]:
    """Return objects in a namespace plus the pull secret, for use by their service accounts."""
    # https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#add-imagepullsecrets-to-a-service-account
    if login is None:
        return manifests
    pulling = {"imagePullSecrets": [{"name": REGISTRY_LOGIN}]}
    return [
        pull_secret(namespace, login),
        *({**each, **(pulling if each["kind"] == "ServiceAccount" else {})} for each in manifests),
    ]
