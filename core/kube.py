"""Connect to a cluster with the content of its kubeconfig, without writing keys to disk."""

import base64
import json
import os
import shutil
import ssl
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

_FILES = ("certificate-authority", "client-certificate", "client-key")
"""The fields of a kubeconfig that name files; `<field>-data` contains the content instead."""
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
    contained = dict(entry)
    for name in (each for each in _FILES if each in entry):
        content = Path(contained.pop(name)).read_bytes()
        contained[f"{name}-data"] = base64.b64encode(content).decode()
    return contained


def connect(kubeconfig: str) -> client.ApiClient:
    """Return a client for a kubeconfig's current context, or raise `config.ConfigException`."""
    content, renewal = yaml.safe_load(kubeconfig), None
    document = content if isinstance(content, dict) else {}
    clusters, users = (
        [each.get(kind) or {} for each in document.get(f"{kind}s") or ()]
        for kind in ("cluster", "user")
    )
    user = users[0] if users else {}
    if (program := user.pop("exec", None)) is not None and not user.keys() & {"token", "tokenFile"}:
        # The client itself would leave a private key on the disk, and never renew a certificate.
        fields, renewal = _log_in(program, clusters[0])
        user |= fields
    held = []
    # TLS reads keys only from files. The client would leave them in the temporary directory if this
    # process were killed; an in-memory file disappears with the process.
    for entry in (*clusters, *users) if sys.platform == "linux" else ():
        for name in (each for each in _FILES if f"{each}-data" in entry):
            held.append(os.memfd_create("slipway"))
            entry[name] = f"/proc/self/fd/{held[-1]}"
            Path(entry[name]).write_bytes(base64.b64decode(entry.pop(f"{name}-data")))
    loaded = client.Configuration()
    config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
        document, client_configuration=loaded
    )
    if "tokenFile" in user:
        loaded.refresh_api_key_hook = partial(_read_token, Path(user["tokenFile"]))  # type: ignore[assignment]
    api = _client(loaded)
    for descriptor in held:
        os.close(descriptor)
    vars(api).update(kubeconfig=kubeconfig, renewal=renewal)  # for `send`
    return api


def inside() -> client.ApiClient:
    """Return a client for the cluster this pod runs in, using the pod's service account."""
    loaded = client.Configuration()
    config.load_incluster_config(client_configuration=loaded)  # type: ignore[no-untyped-call]
    return _client(loaded)


def _client(loaded: client.Configuration) -> client.ApiClient:
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
    # Callers retry; retries by urllib3 would multiply the time limits.
    loaded.retries = False
    # One connection for each log that a run follows; any more would be closed with a warning.
    loaded.connection_pool_maxsize = 128
    api = client.ApiClient(loaded)
    settings = api.rest_client.pool_manager.connection_pool_kw
    # urllib3 would load the certificates again for each connection. Python crashes if that changes
    # the context while another thread is using it for a handshake.
    loaded_already = ("ca_certs", "ca_cert_data", "cert_file", "key_file")
    settings |= {**dict.fromkeys(loaded_already), "ssl_context": context}
    return api


def _read_token(file: Path, loaded: client.Configuration) -> None:
    """Read a token again before each request, as it expires; the client would not."""
    with suppress(OSError):  # The file is being replaced.
        loaded.api_key["BearerToken"] = f"Bearer {file.read_text().strip()}"


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
    renewal = vars(api).get("renewal")
    if renewal is not None and datetime.now(UTC) >= renewal:
        with suppress(config.ConfigException):  # the API server rejects the old credentials
            vars(api).update(vars(connect(vars(api)["kubeconfig"])))
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


def _log_in(
    program: dict[str, Any], cluster: Mapping[str, Any]
) -> tuple[dict[str, str], datetime | None]:
    """Run a kubeconfig's login command; return fields for its user, and when to renew them."""
    began, what, limited = time.monotonic(), "failed; log in again", program
    if shutil.which("timeout") is not None:  # the client sets no limit
        # In the foreground it can prompt the user, but the limit then ends only the command itself.
        kept = ["--foreground"] if sys.stdin is not None and sys.stdin.isatty() else []
        command = [str(_LOGIN_SECONDS), program.get("command"), *(program.get("args") or [])]
        limited = {**program, "command": "timeout", "args": [*kept, "--kill-after=2", *command]}
    try:
        nodes = ConfigNode("exec", limited), None, ConfigNode("cluster", cluster)  # type: ignore[no-untyped-call]
        status = ExecProvider(*nodes).run()  # type: ignore[no-untyped-call]
        fields = {"token": token} if (token := status.get("token")) else {}
        for kind in ("Certificate", "Key") if status.get("clientCertificateData") else ():
            content = status[f"client{kind}Data"].encode()
            fields[f"client-{kind.lower()}-data"] = base64.b64encode(content).decode()
        end = status.get("expirationTimestamp")
        if fields:
            return fields, end and parse_rfc3339(end) - timedelta(minutes=1)  # type: ignore[no-untyped-call]
        what = "printed neither a token nor a client certificate"
    except Exception as error:  # noqa: BLE001  # whatever the command does
        if time.monotonic() - began >= _LOGIN_SECONDS:  # stopped by timeout(1)
            what = f"did not finish within {_LOGIN_SECONDS} s: run it to see what it waits for"
        elif not isinstance(error, AttributeError):  # the client's, if the terminal has the output
            what = f"{what}: {error}"
    raise config.ConfigException(
        f"the kubeconfig's credentials come from `{program.get('command')}`, which {what}"
    )
