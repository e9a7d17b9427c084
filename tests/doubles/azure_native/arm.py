"""Azure's resource manager, of which azure-native's functions know too little: one operation.

It lists the kubeconfig of an instance of AKS on Azure Local, and answers 202 first:
https://learn.microsoft.com/rest/api/hybridcontainer/provisioned-cluster-instances/list-user-kubeconfig.
The operation's document is that of ListUserKubeconfig in specification/hybridaks of
https://github.com/Azure/azure-rest-api-specs, an error's that of
https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md#handling-errors.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.doubles.azure_native.credentials import TOKEN, kubeconfig
from tests.doubles.azure_native.store import Refused, Store
from tests.doubles.serving import in_background

_LIST = "/listUserKubeconfig?api-version=2024-01-01"
_STATUS = "/operationStatuses/1?api-version=2024-01-01"


@dataclass
class Answer:
    """A status code with a document, and headers."""

    status: int
    document: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Arm:
    """What is served, and what happens on the way.

    Args:
        store: The resources that exist.
        header: The one with the operation's address: `Location`, or `Azure-AsyncOperation`, whose
            document exists while the operation is under way.
        polls: How often the operation is found under way.
        surprises: Answered instead, to the first requests with a token.
        failure: The error that the operation ends with.
    """

    store: Store
    header: str = "Azure-AsyncOperation"
    polls: int = 1
    surprises: list[Answer] = field(default_factory=list)
    failure: dict[str, str] | None = None
    url: str = ""
    asked: list[str] = field(default_factory=list)
    _instance: str = ""

    def answer(self, method: str, path: str, login: str) -> Answer:
        """Answer a request."""
        self.asked.append(f"{method} {path}")
        if path == "/metadata/endpoints?api-version=2022-09-01":
            return Answer(200, {"resourceManager": f"{self.url}/"})
        if login != f"Bearer {TOKEN}":
            return refusal(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if self.surprises:
            return self.surprises.pop(0)
        if method == "POST" and path.endswith(_LIST):
            return self._start(path.removesuffix(_LIST))
        if method == "GET" and path == _STATUS:
            return self._status()
        return refusal(404, "NotFound", f"the tests' double does not serve {method} {path}")

    def _start(self, instance: str) -> Answer:
        try:
            self.store.get(instance)
        except Refused as error:
            code, _, message = str(error).partition(": ")
            return refusal(404, code, message)
        self._instance = instance
        self.store.note("list credentials", id=instance)
        return Answer(202, headers={self.header: f"{self.url}{_STATUS}", "Retry-After": "1"})

    def _status(self) -> Answer:
        document = {"id": _STATUS, "name": "1", "resourceId": self._instance}
        if self.polls > 0:
            self.polls -= 1
            if self.header == "Location":
                return Answer(202)
            return Answer(200, {**document, "status": "InProgress"}, {"Retry-After": "1"})
        if self.failure is not None:
            return Answer(200, {**document, "status": "Failed", "error": self.failure})
        properties = {"kubeconfigs": [kubeconfig(self.store)]}
        return Answer(200, {**document, "status": "Succeeded", "properties": properties})


def refusal(status: int, code: str, message: str, **headers: str) -> Answer:
    """Return an answer with an error of Azure's."""
    return Answer(status, {"error": {"code": code, "message": message}}, headers)


@contextmanager
def serving(arm: Arm) -> Iterator[Arm]:
    """Serve it on this machine, at its `url`."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            found = arm.answer(self.command, self.path, self.headers.get("Authorization", ""))
            body = b"" if found.document is None else json.dumps(found.document).encode()
            self.send_response(found.status)
            for name, value in {**found.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815 (as http.server calls them)

        def log_message(self, *_arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    arm.url = f"http://127.0.0.1:{server.server_address[1]}"
    with in_background(server):
        yield arm
