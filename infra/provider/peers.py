"""Who is at the other end of a connection over loopback, which anybody on the machine can open."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
"""A socket that its process has closed is nobody's, which these tables show as root's."""


def is_trusted(peer: str) -> bool:
    """Whether a peer is a process of the user that runs this one, or of root.

    Where the kernel has no such tables (macOS) everybody is, as for every other plugin of Pulumi.

    Args:
        peer: As gRPC writes it, such as `ipv4:127.0.0.1:40312`.
    """
    if not _TABLES[0].exists():
        return True
    kind, _, place = peer.partition(":")
    address, _, port = place.rpartition(":")
    owners = set(_owners(address, int(port))) if kind == "ipv4" else set()
    # Several where the port has connections elsewhere, too: one of another user's may be the peer.
    return bool(owners) and owners <= {0, os.geteuid()}


def _owners(address: str, port: int) -> Iterator[int]:
    """The user ids of the sockets with this address."""
    # proc(5), /proc/net/tcp: the address is a number in the machine's order of bytes.
    number = int.from_bytes(socket.inet_aton(address), sys.byteorder)
    local = f"{number:08X}:{port:04X}"
    for table in _TABLES:
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(local) and fields[3] == _ESTABLISHED:
                yield int(fields[7])
