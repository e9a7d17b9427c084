"""Connect to a cluster with the content of its kubeconfig, without writing keys to disk."""

import base64
import json
import os
import shutil
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

_INLINE = {
    "certificate-authority-data": "certificate-authority",
    "client-certificate-data": "client-certificate",
    "client-key-data": "client-key",
}
_LOGIN_SECONDS = 30

Limit = float | tuple[float, float]

_DELETE_UNREACHABLE = "PULUMI_K8S_DELETE_UNREACHABLE"
"""The environment variable that makes pulumi-kubernetes treat unreachable clusters as deleted."""
IF_GONE = f"If the cluster no longer exists, set {_DELETE_UNREACHABLE}=true"
REQUEST_ERRORS = (ApiException, urllib3.exceptions.HTTPError)
"""Errors from a request that the API server rejected or did not respond to."""
UNREACHABLE = (*REQUEST_ERRORS, OSError)
"""`REQUEST_ERRORS`, and errors from connecting while no API server is running."""
REFUSED = frozenset({401, 403})
"""HTTP statuses that say that this account lacks a right, or is not known."""
ADMISSION = (5.0, 25.0)
"""The limit for a request that admission webhooks judge; by default, each may take 10 s."""
_BUSY = frozenset({429, 500, 502, 503, 504})
_LOG_IN = "log in again, then run `make up`, which also renews the credentials for `make down`"


class AnotherServer(urllib3.exceptions.SSLError):
    """The TLS handshake failed, because another server now has the cluster's address."""


def is_busy(error: BaseException) -> bool:
    """Return whether an API server could not process a request, but may process a later one."""
    return isinstance(error, ApiException) and error.status in _BUSY


def may_be_gone() -> bool:
    """Return whether the user wants an unresponsive cluster to be treated as deleted."""
    return os.environ.get(_DELETE_UNREACHABLE, "").lower() == "true"


def kubeconfig(
    context: str,
    cluster: Mapping[str, Any],
    user: Mapping[str, Any],
    *,
    cluster_name: str | None = None,
    user_name: str | None = None,
) -> str:
    """Return a YAML kubeconfig with one context; cluster and user have the same name by default."""
    names = {"cluster": cluster_name or context, "user": user_name or context}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": names["cluster"], "cluster": dict(cluster)}],
            "users": [{"name": names["user"], "user": dict(user)}],
            "contexts": [{"name": context, "context": names}],
            "current-context": context,
        },
        sort_keys=False,
    )


def self_contained(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig's cluster or user entry with its files inlined, or raise `OSError`."""
    files = {f"{name}-data": name for name in _INLINE.values() if name in entry}
    plain = {key: value for key, value in entry.items() if key not in files.values()}
    return plain | {
        name: base64.b64encode(Path(entry[file]).read_bytes()).decode()
        for name, file in files.items()
    }


def connect(kubeconfig: str) -> client.ApiClient:
    """Return a client for a kubeconfig's current context, or raise `config.ConfigException`."""
    document = yaml.safe_load(kubeconfig)
    users = document.get("users") if isinstance(document, dict) else None
    user = (users[0].get("user") or {}) if users else {}
    if (program := user.get("exec")) is not None:
        user["exec"] = _limited(program)
    if sys.platform == "linux":
        # TLS reads keys only from files. The client would leave them in the temporary directory
        # if this process were killed; an in-memory file disappears with the process.
        document = _with_files_in_memory(document)
    loaded = client.Configuration()
    config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
        document, client_configuration=loaded
    )
    if program is not None and not (loaded.api_key or loaded.cert_file):
        _explain(program)
    if "tokenFile" in user:
        loaded.refresh_api_key_hook = partial(_read_token, Path(user["tokenFile"]))  # type: ignore[assignment]
    return _client(loaded)


def inside() -> client.ApiClient:
    """Return a client for the cluster this pod runs in, using the pod's service account."""
    loaded = client.Configuration()
    config.load_incluster_config(client_configuration=loaded)  # type: ignore[no-untyped-call]
    return _client(loaded)


def _client(loaded: client.Configuration) -> client.ApiClient:
    # Callers retry; retries by urllib3 would multiply the time limits.
    loaded.retries = False
    # One connection for each log that a run follows; any more would be closed with a warning.
    loaded.connection_pool_maxsize = 128
    api = client.ApiClient(loaded)
    settings = api.rest_client.pool_manager.connection_pool_kw
    settings["ssl_context"] = _tls(loaded)
    # urllib3 would load them again for each connection. Python crashes if that changes the context
    # while another thread is using it for a handshake.
    for loaded_already in ("ca_certs", "ca_cert_data", "cert_file", "key_file"):
        settings[loaded_already] = None
    return api


def _read_token(file: Path, loaded: client.Configuration) -> None:
    """Read a token again before each request, as it expires; the client would not."""
    with suppress(OSError):  # The file is being replaced.
        loaded.api_key["BearerToken"] = f"Bearer {file.read_text().strip()}"


def _tls(loaded: client.Configuration) -> ssl.SSLContext:
    required = ssl.CERT_REQUIRED if loaded.verify_ssl else ssl.CERT_NONE
    context = urllib3.util.create_urllib3_context(cert_reqs=required)
    # Python 3.13 rejects certificates without an authority key identifier, and many clusters'
    # certificates have none. Other Kubernetes clients accept them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        if loaded.ssl_ca_cert or loaded.ca_cert_data:
            context.load_verify_locations(loaded.ssl_ca_cert, cadata=loaded.ca_cert_data)
        else:
            context.load_default_certs()
        if loaded.cert_file:
            # With an empty password, OpenSSL does not ask for the one of an encrypted key.
            context.load_cert_chain(loaded.cert_file, loaded.key_file, password="")
    except OSError as error:
        raise config.ConfigException(
            f"the kubeconfig's certificates can't be loaded: {error}"
        ) from error
    return context


@dataclass(frozen=True)
class Request:
    """A request to an API server. PATCH is a merge patch or, with `apply`, a server-side apply."""

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    apply: bool = False
    accept: str = "*/*"


def send(api: client.ApiClient, request: Request, *, limit: Limit) -> urllib3.BaseHTTPResponse:
    """Send a request, and return the response with its content unread.

    `limit` is in seconds: one number for the whole request, or a pair for connecting and each read.

    Raises:
        ApiException: The API server rejected the request.
        urllib3.exceptions.HTTPError: There was no response, or one from a different server
            (`AnotherServer`).
    """
    # The client's classes are not used: importing the one for pods takes 0.8 s of CPU time.
    content = "application/json"
    if request.method == "PATCH":
        content = f"application/{'apply-patch+yaml' if request.apply else 'merge-patch+json'}"
    headers = {"Accept": request.accept}
    serialized = api.param_serialize(
        request.method,
        request.path,
        query_params=list(request.query.items()),
        header_params=headers if request.body is None else headers | {"Content-Type": content},
        body=request.body,
        auth_settings=["BearerToken"],
    )
    try:
        answer: Any = api.call_api(*serialized, _request_timeout=limit)
    except ApiException as error:
        if error.status == 0:  # the client's own form of an SSLError
            text = f"a server other than the API server responded: {error.reason}"
            raise AnotherServer(text) from error
        raise
    if not 200 <= answer.status <= 299:
        answer.read()
        raise ApiException(http_resp=answer)
    opened: urllib3.BaseHTTPResponse = answer.response
    return opened


def ask(
    api: client.ApiClient, request: Request, *, limit: Limit, settled: int | None = None
) -> Any:
    """Send a request and return the decoded response, or None if the HTTP status is `settled`."""
    try:
        return json.loads(send(api, request, limit=limit).data)
    except ApiException as error:
        if error.status != settled:
            raise
        return None


def api_message(error: Exception) -> str:
    """Return the message in an API server's error, or the text of any other exception."""
    if not isinstance(error, ApiException):
        return str(error)
    try:
        text = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        text = f"{error.status} {error.reason}"
    return f"{text}; {_LOG_IN}" if error.status == 401 else text


def reason(error: Exception) -> str:
    """Describe one of the `UNREACHABLE` errors."""
    if isinstance(error, ApiException):
        return f"the API server responded: {api_message(error)}"
    return f"the API server can't be reached: {error}"


def _limited(program: dict[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig's login command, wrapped in a timeout because the client sets none."""
    if shutil.which("timeout") is None:
        return program
    # In the foreground it can prompt the user, but the limit then ends only the command itself.
    kept = ["--foreground"] if sys.stdin is not None and sys.stdin.isatty() else []
    command = [str(_LOGIN_SECONDS), program.get("command"), *(program.get("args") or [])]
    return {**program, "command": "timeout", "args": [*kept, "--kill-after=2", *command]}


def _explain(program: dict[str, Any]) -> None:
    """Raise an error that says why a login command failed; the client ignores such failures."""
    what = "failed; log in again"
    try:
        ExecProvider(ConfigNode("exec", _limited(program)), None).run()  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  # whatever the command does
        what = f"{what}: {error}"
        if "returned 124" in str(error):  # by timeout(1)
            what = f"did not finish within {_LOGIN_SECONDS} s: run it to see what it waits for"
    command = program.get("command")
    raise config.ConfigException(
        f"the kubeconfig's credentials come from `{command}`, which {what}"
    )


def _with_files_in_memory(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_files_in_memory(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        _INLINE.get(key, key): (
            _in_memory(base64.b64decode(value)) if key in _INLINE else _with_files_in_memory(value)
        )
        for key, value in node.items()
    }


@cache
def _in_memory(content: bytes) -> str:
    """Return the path of an in-memory file that exists until this process exits."""
    descriptor = os.memfd_create("slipway")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return f"/proc/self/fd/{descriptor}"
