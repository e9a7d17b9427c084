"""Which network interface Gloo is to use: that of the address by which the others know this worker.

Left alone, Gloo takes whatever the machine's name resolves to.
"""

import fcntl
import os
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915
"""Linux: the IPv4 address of an interface, see netdevice(7)."""
_IPV6 = Path("/proc/net/if_inet6")
"""Linux: each IPv6 address with its interface, see proc_net(5)."""


def choose(address: str) -> None:
    """Set GLOO_SOCKET_IFNAME to the interface that has `address`, unless it is set.

    Where none has it, Gloo is left to choose.
    """
    for _, name in socket.if_nameindex():
        if address in {_ipv4(name), *_ipv6(name)}:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def own_address(host: str) -> str:
    """Return the address of this machine that `host`, a name of it, stands for."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # A pod's name is in its own /etc/hosts; its Service's name may not be known yet.
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


def _ipv4(interface: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
        except OSError:
            return None  # it has none
    return socket.inet_ntoa(answer[20:24])


def _ipv6(interface: str) -> list[str]:
    lines = _IPV6.read_text().splitlines() if _IPV6.exists() else []
    found = [line.split() for line in lines]
    return [
        socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))
        for words in found
        if words[-1] == interface
    ]
