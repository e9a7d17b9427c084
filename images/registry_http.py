"""Questions to a registry by HTTP: with TLS, but for this machine's own registries."""

import ipaddress
from typing import Any
from urllib.parse import urlsplit

import requests
from tenacity import (
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_exponential,
)

BUSY = frozenset({429, 500, 502, 503, 504})
"""Answers after which it is asked again."""
_ANSWER_LIMIT = 15.0


def ask(method: str, url: str, **more: Any) -> requests.Response:
    """Ask once. Raises `requests.RequestException`."""
    with requests.Session() as session:
        # No proxy leads to this machine.
        session.trust_env = not is_loopback(urlsplit(url).netloc)
        # Otherwise ~/.netrc would take the place of the header.
        session.auth = _as_it_is
        return session.request(method, url, timeout=_ANSWER_LIMIT, **more)


def ask_patiently(method: str, url: str, limit: float, **more: Any) -> requests.Response:
    """Ask until it is not busy and the connection holds.

    Raises:
        tenacity.RetryError: that took more than `limit` seconds.
    """
    again = Retrying(
        stop=stop_after_delay(limit),
        wait=wait_exponential(multiplier=0.5, max=8),
        retry=retry_if_exception_type((requests.ConnectionError, requests.Timeout))
        | retry_if_result(lambda response: response.status_code in BUSY),
    )
    return again(ask, method, url, **more)


def is_loopback(name: str) -> bool:
    """Return whether `host:port` is this machine, where a registry needs no TLS."""
    bare = urlsplit(f"//{name}").hostname or ""
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare == "localhost"


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
