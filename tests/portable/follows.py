"""Rank 1 fails and takes rank 0 along, which reports its peer and ends first."""

import os
import socket
import sys
import time


class DistNetworkError(RuntimeError):
    """torch's, without the seconds that its import takes."""

    __module__ = "torch.distributed"


rank, address = os.environ["RANK"], (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == "0":
    with socket.create_server(("", address[1])) as server:
        while (peer := server.accept()[0]).recv(1) != b"x":
            pass
    while peer.recv(1):
        pass
    raise DistNetworkError("Connection reset by peer")
for _ in range(100):
    try:
        peer = socket.create_connection(address, timeout=5)
        break
    except OSError:
        time.sleep(0.1)
peer.send(b"x")
time.sleep(1)
peer.close()
time.sleep(0.5)
sys.exit(3)
