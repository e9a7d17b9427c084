"""Sends one HTTP request with a login of its own, over TLS but for this machine."""

import ipaddress
from typing import Any
from urllib.parse import urlsplit

import requests

_SECONDS = 15.0


def is_loopback(name: str) -> bool:
    """Return whether `host:port` is this machine, to which nothing needs TLS."""
    bare = urlsplit(f"//{name}").hostname or ""
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare == "localhost"


def is_readable(url: str) -> bool:
    """Return whether others could read a login that is sent there."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.netloc)


def ask(method: str, url: str, **more: Any) -> requests.Response:
    """Ask once, for 15 seconds at most; `requests.RequestException` is raised for no answer."""
    with requests.Session() as session:
        # No proxy leads to this machine.
        session.trust_env = not is_loopback(urlsplit(url).netloc)
        # Otherwise ~/.netrc would replace the header.
        session.auth = lambda request: request
        return session.request(method, url, timeout=_SECONDS, **more)
