"""Who this worker is and who the others are, from the environment. No torch.

In a pod the training operator says it: PET_RDZV_ENDPOINT (<job>-worker-0:<port>), PET_NNODES
(<min>:<max>) and PET_MAX_RESTARTS, from the job's elastic policy; HOSTNAME is the pod's name. On
one machine SLIPWAY_ELASTIC_PEERS lists the workers' addresses instead (host:port, comma-separated),
and SLIPWAY_ELASTIC_INDEX says which one this is. With neither, the worker is alone.
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
_COUNT = r"\d+", "a whole number from 0"
_VARIABLES = {
    "PET_NNODES": ("1", r"([1-9]\d*)(?::(\d+))?", "<min>:<max> with a min of 1 or more"),
    "PET_MAX_RESTARTS": (str(DEFAULT_LOSSES), *_COUNT),
    "PET_NPROC_PER_NODE": ("1", "1|auto", "1: set processesPerNode to 1, and raise workers"),
}
"""Their defaults, and what each takes, as a pattern and in words."""
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
    """What a worker knows before it has met another."""

    index: int
    """Which worker this is; a replacement has the index of the one it replaces."""
    peers: tuple[Address, ...]
    """Where each index's board is served, this one's included; alone on any port."""
    minimum: int
    """The fewest workers that may train."""
    losses: int
    """How often the world may form again after it lost workers."""


def read(
    environment: Mapping[str, str] = os.environ, resolver: Path = Path("/etc/resolv.conf")
) -> ElasticSettings:
    """Return the settings that `environment` holds; `ValueError` names every wrong variable."""
    if "SLIPWAY_ELASTIC_PEERS" in environment:
        found = _matches(environment, _LISTED)
        index = int(found["SLIPWAY_ELASTIC_INDEX"][0])
        listed = re.findall(_HOST_PORT, found["SLIPWAY_ELASTIC_PEERS"][0])
        peers = [(host.strip("[]"), int(port)) for host, port in listed]
    elif "PET_RDZV_ENDPOINT" in environment:
        found = _matches(environment, _OF_POD)
        index, (job, port) = int(found["HOSTNAME"][1]), found["PET_RDZV_ENDPOINT"].groups()
        count = max(int(found["PET_NNODES"][2] or found["PET_NNODES"][1]), index + 1)
        domain = _search_domain(resolver)
        peers = [(f"{job}-worker-{number}{domain}", int(port)) for number in range(count)]
    elif int(environment.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"WORLD_SIZE={environment['WORLD_SIZE']}: a launcher started this elastic worker as "
            "one of a fixed world; start one process per worker, without torchrun, and give the "
            "job an elastic policy, or set SLIPWAY_ELASTIC_PEERS and SLIPWAY_ELASTIC_INDEX"
        )
    else:
        return ElasticSettings(0, (("127.0.0.1", 0),), 1, 0)
    least = int(found["PET_NNODES"][1])
    if least > len(peers) or index >= len(peers):
        raise ValueError(
            f"PET_NNODES={found['PET_NNODES'][0]}, and this is worker {index}: there are only "
            f"{len(peers)} workers, 0 to {len(peers) - 1}; add to SLIPWAY_ELASTIC_PEERS"
        )
    return ElasticSettings(index, tuple(peers), least, int(found["PET_MAX_RESTARTS"][0]))


def choose_interface(settings: ElasticSettings) -> None:
    """Have Gloo use the loopback where all workers are on this machine, unless it is told."""
    names = {name for _, name in socket.if_nameindex()}
    if settings.peers[settings.index][0] in {"localhost", "127.0.0.1", "::1"} and "lo" in names:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _matches(
    environment: Mapping[str, str], others: Mapping[str, tuple[str, str, str]]
) -> dict[str, re.Match[str]]:
    """Return what each variable has; or raise `ValueError` with every one that is wrong."""
    found, problems = {}, []
    for name, (default, pattern, allowed) in {**others, **_VARIABLES}.items():
        text = environment.get(name, default)
        if (match := re.fullmatch(pattern, text)) is None:
            problems.append(f"{name}={text} is not {allowed}")
        else:
            found[name] = match
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _search_domain(resolver: Path) -> str:
    """Return what makes a Service's name complete, "" outside a cluster.

    A short one is tried with every search domain, also outside the cluster, which may take seconds.
    """
    text = resolver.read_text() if resolver.exists() else ""
    search = re.search(r"(?m)^[ \t]*search[ \t](.*)", text)
    words = search[1].split() if search else []
    return next((f".{word}." for word in words if ".svc." in f"{word}."), "")
