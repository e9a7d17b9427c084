"""Where a cluster's nodes get images from: those that are there already, and a private registry."""

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
    # Nodes take a first part without a dot and a port for a user's name at Docker Hub:
    # https://github.com/distribution/reference/blob/v0.6.0/normalize.go (splitDockerDomain)
    name = host(reference)
    is_host = "." in name or ":" in name or name == "localhost"
    if name in DOCKER_HUB or not is_host:
        raise ValueError(
            "an image of a private registry, with that one's host in front, and this one, Docker "
            "Hub's, is in a public registry; name one of your own"
        )
    return reference


ByDigest = Annotated[str, _text("byDigest"), AfterValidator(_private)]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Images:
    """Images that are already where the cluster's nodes can fetch them.

    What is not named is built and pushed to the `registry`, where there is one.

    Args:
        trainer: What jobs run unless they bring their own.
        trainer_cuda: The same for jobs with GPUs.
        training_operator: The operator's, where the stack installs it.
        tcp_wait: Of the container that waits for a job's master; likewise.
        mlflow: The tracking server's, where the stack installs it.
        postgres: Of its PostgreSQL; likewise.
    """

    trainer: Image | None = None
    trainer_cuda: Image | None = None
    training_operator: Image | None = None
    tcp_wait: Image | None = None
    mlflow: Image | None = None
    postgres: Image | None = None

    @property
    def prebuilt(self) -> dict[str, str]:
        """Those that are set, by their keys in the stack's YAML."""
        return {to_camel(key): image for key, image in asdict(self).items() if image is not None}

    def target(self, pushed: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return `Cluster.image_target`: `pushed` for what is not prebuilt, None where none is."""
        if pushed is None or not self.prebuilt:
            return pushed or {"kind": "there", **self.prebuilt}
        return {"kind": "there", **self.prebuilt, "otherwise": pushed}


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Registry:
    """A private registry.

    Args:
        server: Its address, and a path in it.
        credentials: A docker config.json, of which that server's entry alone is taken: to push,
            and as a Secret for the nodes to pull. By default, a push looks where docker and
            podman keep theirs, and the nodes get no Secret.
        mirrors: Where images of public registries are: the public reference, and the private one.
    """

    server: Server
    credentials: Credentials | None = None
    mirrors: dict[str, ByDigest] = Field(default_factory=dict)

    @property
    def host(self) -> str:
        """Its host, with its port."""
        return host(self.server)

    def has(self, image: str) -> bool:
        """Return whether it has an image of this name, or one that stands in for it."""
        return image in self.mirrors or host(image) == self.host

    def target(self) -> dict[str, Any]:
        """Return `Cluster.image_target`."""
        known = {} if self.credentials is None else {"credentials": self.credentials}
        return {"kind": "registry", "server": self.server, "login": "docker", **known}

    def pull_secret(self) -> str | None:
        """Return `Cluster.pull_secret`, None without `credentials`; or raise `pulumi.RunError`."""
        if self.credentials is None:
            return None
        key, file = "slipway:cluster.registry.credentials", Path(self.credentials).expanduser()
        try:
            # What a helper keeps may hold for an hour, and nodes pull at any time.
            login = stored_login(self.server, file, ask_helpers=False)
        except TargetError as error:
            raise pulumi.RunError(f"{key}: {error}") from None
        if login is None:
            raise pulumi.RunError(
                f"{key}: {file} holds no login of {self.server} itself (one that a credential "
                "helper keeps can't be given to nodes); name the config.json that "
                f"`docker --config DIR login {self.host}` writes in a new directory DIR"
            )
        return json.dumps(config(self.server, login))


def reached_alone(options: Any) -> Registry | None:
    """Return the only registry that nodes get images from, by a kind's settings; None for any."""
    registry: Registry | None = getattr(options, "registry", None)
    return registry if getattr(options, "disconnected", None) else None


def pull_secret(namespace: str, login: str) -> Manifest:
    """Return the Secret with which nodes pull from a private registry."""
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
    """Return what is in a namespace, with what the pods of its accounts need to pull."""
    # https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#add-imagepullsecrets-to-a-service-account
    if login is None:
        return manifests
    pulling = {"imagePullSecrets": [{"name": REGISTRY_LOGIN}]}
    return [
        pull_secret(namespace, login),
        *({**each, **(pulling if each["kind"] == "ServiceAccount" else {})} for each in manifests),
    ]
