"""Send HTTP requests with the caller's credentials, and check whether a URL needs TLS."""

import ipaddress
from typing import Any
from urllib.parse import urlsplit

import requests

_SECONDS = 15.0


def is_loopback(name: str) -> bool:
    """Return whether `name`, a host or `host:port`, is this machine, so that TLS is not needed."""
    bare = urlsplit(f"//{name}").hostname or ""
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare == "localhost"


def is_readable(url: str) -> bool:
    """Return whether others on the network could read credentials that are sent to a URL."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.netloc)


def ask(method: str, url: str, **more: Any) -> requests.Response:
    """Send one request; raise `RequestException` if there is no response within 15 seconds."""
    with requests.Session() as session:
        # A proxy can't reach this machine.
        session.trust_env = not is_loopback(urlsplit(url).netloc)
        # Otherwise credentials in ~/.netrc would replace the caller's header.
        session.auth = lambda request: request
        return session.request(method, url, timeout=_SECONDS, **more)
