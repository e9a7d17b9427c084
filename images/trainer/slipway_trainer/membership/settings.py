"""The identity of this worker and its peers, from the environment. Does not import torch.

In a pod, the training operator sets PET_RDZV_ENDPOINT (<job>-worker-0:<port>), PET_NNODES
(<min>:<max>) and PET_MAX_RESTARTS from the job's elastic policy; HOSTNAME is the pod's name. On a
single machine, SLIPWAY_ELASTIC_PEERS lists the workers' addresses (host:port, comma-separated), and
SLIPWAY_ELASTIC_INDEX is this worker's index. If neither is set, there is only this worker.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Address = tuple[str, int]

DEFAULT_LOSSES = 10
_HOST_PORT = r"\s*(\[[^\[\],]+\]|[^\[\]:,\s]+):(\d+)\s*"
_COUNT = r"\d+", "a whole number of at least 0"
_VARIABLES = {
    "PET_NNODES": ("1", r"([1-9]\d*)(?::(\d+))?", "<min>:<max> with a min of 1 or more"),
    "PET_MAX_RESTARTS": (str(DEFAULT_LOSSES), *_COUNT),
    "PET_NPROC_PER_NODE": ("1", "1|auto", "1: set processesPerNode to 1 and increase workers"),
}
"""The variables' defaults, and their valid values as a pattern and as a description."""
_LISTED = {
    "SLIPWAY_ELASTIC_PEERS": (
        "", f"{_HOST_PORT}(?:,{_HOST_PORT})*", "host:port or [IPv6 address]:port, comma-separated"),
    "SLIPWAY_ELASTIC_INDEX": ("", *_COUNT),
}  # fmt: skip
_OF_POD = {
    "PET_RDZV_ENDPOINT": ("", r"(.+)-worker-0:(\d+)", "<job>-worker-0:<port>"),
    "HOSTNAME": ("", r".+-worker-(\d+)", "a worker's pod name, <job>-worker-<index>"),
}


@dataclass(frozen=True)
class ElasticSettings:
    """A worker's settings before the first rendezvous."""

    index: int
    """The worker's index; a replacement has the index of the worker that it replaces."""
    peers: tuple[Address, ...]
    """All workers' addresses, in index order, including this one's; a lone worker's port is 0."""
    minimum: int
    """The minimum number of workers for training."""
    losses: int
    """The maximum number of new worlds after losing workers."""


def read(
    environment: Mapping[str, str] = os.environ, resolver: Path = Path("/etc/resolv.conf")
) -> ElasticSettings:
    """Return the settings in `environment`; raises a `ValueError` listing invalid variables."""
    if "SLIPWAY_ELASTIC_PEERS" in environment:
        values = _matches(environment, _LISTED)
        index = int(values["SLIPWAY_ELASTIC_INDEX"][0])
        listed = re.findall(_HOST_PORT, values["SLIPWAY_ELASTIC_PEERS"][0])
        peers = [(host.strip("[]"), int(port)) for host, port in listed]
    elif "PET_RDZV_ENDPOINT" in environment:
        values = _matches(environment, _OF_POD)
        index, (job, port) = int(values["HOSTNAME"][1]), values["PET_RDZV_ENDPOINT"].groups()
        count = max(int(values["PET_NNODES"][2] or values["PET_NNODES"][1]), index + 1)
        domain = _search_domain(resolver)
        peers = [(f"{job}-worker-{number}{domain}", int(port)) for number in range(count)]
    elif int(environment.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"WORLD_SIZE={environment['WORLD_SIZE']}: a launcher started this elastic worker as "
            "part of a fixed world; start one process per worker, without torchrun, and give the "
            "job an elastic policy, or set SLIPWAY_ELASTIC_PEERS and SLIPWAY_ELASTIC_INDEX"
        )
    else:
        return ElasticSettings(0, (("127.0.0.1", 0),), 1, 0)
    least = int(values["PET_NNODES"][1])
    if least > len(peers) or index >= len(peers):
        raise ValueError(
            f"PET_NNODES={values['PET_NNODES'][0]} and this is worker {index}, but there are only "
            f"{len(peers)} workers, 0 to {len(peers) - 1}; add the others to SLIPWAY_ELASTIC_PEERS"
        )
    return ElasticSettings(index, tuple(peers), least, int(values["PET_MAX_RESTARTS"][0]))


def choose_interface(settings: ElasticSettings) -> None:
    """Make Gloo use the loopback interface if all workers are local, unless one is configured."""
    names = {name for _, name in socket.if_nameindex()}
    if settings.peers[settings.index][0] in {"localhost", "127.0.0.1", "::1"} and "lo" in names:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _matches(
    environment: Mapping[str, str], others: Mapping[str, tuple[str, str, str]]
) -> dict[str, re.Match[str]]:
    """Return each variable's match; raises `ValueError` listing every invalid variable."""
    matches, problems = {}, []
    for name, (default, pattern, allowed) in {**others, **_VARIABLES}.items():
        text = environment.get(name, default)
        if (match := re.fullmatch(pattern, text)) is None:
            problems.append(f"{name}={text} is not {allowed}")
        else:
            matches[name] = match
    if problems:
        raise ValueError("; ".join(problems))
    return matches


def _search_domain(resolver: Path) -> str:
    """Return the domain for Services, with dots around it, or "" outside a cluster.

    Without it, a name is tried with all search domains, even external ones, which takes seconds.
    """
    text = resolver.read_text() if resolver.exists() else ""
    search = re.search(r"(?m)^[ \t]*search[ \t](.*)", text)
    words = search[1].split() if search else []
    return next((f".{word}." for word in words if ".svc." in f"{word}."), "")
