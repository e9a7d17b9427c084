"""Which network interface Gloo is to use: that of the address by which the others know this worker.

Left alone, Gloo takes whatever the machine's name resolves to.
"""

import fcntl
import os
import socket
import struct

_SIOCGIFADDR = 0x8915
"""Linux: the IPv4 address of an interface, see netdevice(7)."""


def choose(address: str) -> None:
    """Set GLOO_SOCKET_IFNAME to the interface that has `address`, unless it is set.

    Where none has it, for example for an IPv6 address, Gloo is left to choose.
    """
    for _, name in socket.if_nameindex():
        if _ipv4(name) == address:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def own_address(host: str) -> str:
    """Return the address of this machine that `host`, a name of it, stands for."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        # A pod's name is in its own /etc/hosts; its Service's name may not be known yet.
        return socket.gethostbyname(socket.gethostname())


def _ipv4(interface: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
        except OSError:
            return None  # it has none
    return socket.inet_ntoa(answer[20:24])
