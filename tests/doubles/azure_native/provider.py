"""The life of resources in the double, on top of the stub that serves previews."""

import asyncio
import os
import re
from pathlib import Path
from typing import Any

from pulumi.provider.experimental import provider as protocol
from pulumi.runtime.proto import engine_pb2_grpc

from infra.provider.engine import plain, plain_map, wrap_map
from scripts.azure_native import PreviewStub, token
from tests.doubles.azure_native.autoscaler import Autoscaler
from tests.doubles.azure_native.credentials import list_credentials
from tests.doubles.azure_native.nodes import empty, follow
from tests.doubles.azure_native.pools import keep_count, pool_profiles
from tests.doubles.azure_native.resources import WITH_ADDRESS, outputs_of, path_of
from tests.doubles.azure_native.store import VARIABLE, Record, Refused, Store

Properties = dict[str, Any]
_RESERVED = "azure|office|xbox|.*(microsoft|windows).*|login.*"
"""Some of the names that Azure refuses for what has an address in DNS."""


class AzureDouble(PreviewStub):
    """Serves what the tests' stacks declare; a type or function besides is refused by its name."""

    notice = "Azure is not asked: this is the tests' double of azure-native's plugin."

    def __init__(self, engine: engine_pb2_grpc.EngineStub) -> None:
        super().__init__(engine)
        self.store = Store(Path(os.environ[VARIABLE]))
        self.subscription = ""

    async def configure(self, request: protocol.ConfigureRequest) -> protocol.ConfigureResponse:
        self.subscription = plain(request.args["subscriptionId"])
        Autoscaler(self.store).start()
        return await super().configure(request)

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        if request.preview:
            return await super().create(request)
        inputs = plain_map(request.properties)
        record = await asyncio.to_thread(self.make, token(request), inputs)
        return protocol.CreateResponse(record.id, wrap_map(record.outputs))

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        if request.preview:
            return await super().update(request)
        inputs = plain_map(request.news)
        record = await asyncio.to_thread(self.change, request.resource_id, inputs)
        return protocol.UpdateResponse(wrap_map(record.outputs))

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        record = self.store.find(request.resource_id)
        if record is None:
            return protocol.ReadResponse("", {}, {})
        all_pools = pool_profiles(self.store, record)
        # What the program leaves to Azure is none of its inputs.
        inputs = {key: record.inputs[key] for key in record.inputs if key in request.inputs}
        outputs = wrap_map(record.outputs | all_pools)
        return protocol.ReadResponse(record.id, outputs, wrap_map(inputs | all_pools))

    async def delete(self, request: protocol.DeleteRequest) -> None:
        await asyncio.to_thread(self.remove, request.resource_id)

    async def invoke(self, request: protocol.InvokeRequest) -> protocol.InvokeResponse:
        arguments = plain_map(request.args)
        found = await asyncio.to_thread(
            list_credentials, self.store, self.subscription, request.tok, arguments
        )
        return protocol.InvokeResponse(wrap_map(found))

    def make(self, kind: str, inputs: Properties) -> Record:
        """Create a resource."""
        resource_id = path_of(kind, inputs, self.subscription)
        name = resource_id.rpartition("/")[2]
        if kind.endswith(WITH_ADDRESS) and re.fullmatch(_RESERVED, name, re.IGNORECASE):
            raise Refused(f"ReservedResourceName: {name} is a trademarked or reserved word")
        if inputs.get("identityProfile") and self.store.late_roles.exists():
            # https://learn.microsoft.com/azure/aks/use-managed-identity#pre-created-kubelet-managed-identity
            raise Refused(
                "CustomKubeletIdentityMissingPermissionError: The cluster's identity has no role "
                f"over the one of its nodes, {inputs['identityProfile']}"
            )
        record = Record(resource_id, kind, inputs, outputs_of(kind, resource_id, inputs))
        self.store.add(record)
        follow(self.store, resource_id)
        return record

    def change(self, resource_id: str, inputs: Properties) -> Record:
        """Change a resource in place."""
        before = self.store.get(resource_id)
        outputs = outputs_of(before.type, resource_id, inputs)
        record = keep_count(before, Record(resource_id, before.type, inputs, outputs))
        self.store.put(record)
        follow(self.store, resource_id)
        return record

    def remove(self, resource_id: str) -> None:
        """Remove a resource with all that is in it, and pools' nodes with them."""
        if re.search("/(managedClusters|connectedClusters)/[^/]+$", resource_id):
            empty(self.store)
        for each in [record.id for record in self.store.all()]:
            if f"{each}/".lower().startswith(f"{resource_id}/".lower()):
                follow(self.store, each, leaving=True)
                self.store.remove(each)
