"""A session of the recording double without an engine, and resources to ask it for."""

from pathlib import Path
from typing import Any, cast

from pulumi.runtime.proto import engine_pb2_grpc

from scripts.offline.azure_recording import life
from scripts.offline.azure_recording.recording import Recording
from scripts.offline.azure_recording.session import Session

CLUSTER = "azure-native:containerservice:ManagedCluster"
GROUP = "azure-native:resources:ResourceGroup"
POOL = "azure-native:containerservice:AgentPool"
SUBSCRIPTION = "11111111-1111-4111-8111-111111111111"


class Told:
    """An engine that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def Log(self, request: Any) -> None:  # noqa: N802 (the protocol's name)
        self.messages.append(request.message)


def session(told: Told | None = None) -> Session:
    """Return a session that is configured with a subscription and a location."""
    made = Session(cast(engine_pb2_grpc.EngineStub, Told() if told is None else told))
    made.configuration = {"subscriptionId": SUBSCRIPTION, "location": "westeurope"}
    return made


def lent(directory: Path) -> Session:
    """Return a session with a recording."""
    made = session()
    made.recording = Recording(directory)
    return made


def group(made: Session) -> str:
    """Have a resource group made and return its ID."""
    inputs = {"resourceGroupName": "slipway", "location": "westeurope"}
    return life.create(made, GROUP, inputs, preview=False)[0]


def cluster(made: Session, **inputs: Any) -> str:
    """Have a cluster made and return its ID."""
    given = {"resourceGroupName": "slipway", "resourceName": "slipway", "dnsPrefix": "slipway"}
    return life.create(made, CLUSTER, {**given, **inputs}, preview=False)[0]
