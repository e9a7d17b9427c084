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


@dataclass(frozen=True)
class Settings:
    """What a worker knows before it has met another."""

    job: str
    """What the rendezvous is called."""
    index: int
    """Which worker this is; a replacement has the index of the one it replaces."""
    peers: tuple[Address, ...]
    """Where each index's board is served, this one's included."""
    minimum: int
    """The fewest workers that may train."""
    losses: int
    """How often the world may form again after it lost workers."""

    @property
    def maximum(self) -> int:
        """The most workers there can be."""
        return len(self.peers)


def read(
    environment: Mapping[str, str] = os.environ, resolver: Path = Path("/etc/resolv.conf")
) -> Settings:
    """Return the settings that `environment` holds; `resolver` names the DNS search domains.

    Raises:
        ValueError: something is missing or wrong; the message names every such variable.
    """
    problems: list[str] = []
    minimum, maximum = _nodes(environment, problems)
    if "SLIPWAY_ELASTIC_PEERS" in environment:
        job, index, peers = _listed(environment, problems)
    elif "PET_RDZV_ENDPOINT" in environment:
        job, index, peers = _replicas(environment, resolver, maximum, problems)
    elif int(environment.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"WORLD_SIZE={environment['WORLD_SIZE']}: a launcher started this elastic worker as "
            "one of a fixed world; start one process per worker, without torchrun, and give the "
            "job an elastic policy, or set SLIPWAY_ELASTIC_PEERS and SLIPWAY_ELASTIC_INDEX"
        )
    else:
        return Settings("alone", 0, (("127.0.0.1", _free_port()),), 1, 0)
    if peers and minimum > len(peers):
        problems.append(
            f"PET_NNODES={environment['PET_NNODES']}: there are only {len(peers)} workers"
        )
    losses = _count("PET_MAX_RESTARTS", environment, DEFAULT_LOSSES, problems)
    if environment.get("PET_NPROC_PER_NODE", "1") not in {"1", "auto"}:
        problems.append(
            f"PET_NPROC_PER_NODE={environment['PET_NPROC_PER_NODE']}: an elastic worker is one "
            "process per pod; set processesPerNode to 1 and raise workers"
        )
    if problems:
        raise ValueError("; ".join(problems))
    return Settings(job, index, tuple(peers), minimum, losses)


def choose_interface(settings: Settings) -> None:
    """Have Gloo use the loopback where all workers are on this machine, unless it is told.

    Left alone, it takes what the machine's name resolves to: in a pod that is the pod's address.
    """
    names = {name for _, name in socket.if_nameindex()}
    if settings.peers[settings.index][0] in {"localhost", "127.0.0.1", "::1"} and "lo" in names:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _listed(environment: Mapping[str, str], problems: list[str]) -> tuple[str, int, list[Address]]:
    text, peers = environment["SLIPWAY_ELASTIC_PEERS"], []
    for address in text.split(","):
        host, _, port = address.strip().rpartition(":")
        is_ipv6 = host.startswith("[") and host.endswith("]")
        if not host or not port.isdecimal() or (":" in host and not is_ipv6):
            problems.append(
                f"SLIPWAY_ELASTIC_PEERS={text}: {address!r} is not host:port or [IPv6 address]:port"
            )
        else:
            peers.append((host.strip("[]"), int(port)))
    index = _count("SLIPWAY_ELASTIC_INDEX", environment, None, problems)
    if peers and index >= len(peers):
        problems.append(
            f"SLIPWAY_ELASTIC_INDEX={index} is not allowed, SLIPWAY_ELASTIC_PEERS has the indices "
            f"0 to {len(peers) - 1}"
        )
    return "local", index, peers


def _replicas(
    environment: Mapping[str, str], resolver: Path, maximum: int, problems: list[str]
) -> tuple[str, int, list[Address]]:
    endpoint, hostname = environment["PET_RDZV_ENDPOINT"], environment.get("HOSTNAME", "")
    host = re.fullmatch(r"(?P<job>.+)-worker-0:(?P<port>\d+)", endpoint)
    own = re.fullmatch(r"(?P<job>.+)-worker-(?P<index>\d+)", hostname)
    if host is None:
        problems.append(f"PET_RDZV_ENDPOINT={endpoint} is not <job>-worker-0:<port>")
    if own is None:
        problems.append(f"HOSTNAME={hostname} is not a worker's pod name, <job>-worker-<index>")
    if host is None or own is None:
        return "", 0, []
    job, port, index = host["job"], int(host["port"]), int(own["index"])
    domain, count = _search_domain(resolver), max(maximum, index + 1)
    return job, index, [(f"{job}-worker-{number}{domain}", port) for number in range(count)]


def _nodes(environment: Mapping[str, str], problems: list[str]) -> tuple[int, int]:
    """Return the least and the most workers; PET_NNODES is `min:max`, or one number for both."""
    text = environment.get("PET_NNODES", "1:0")
    least, _, most = text.partition(":")
    if not least.isdecimal() or not (most or least).isdecimal() or int(least) < 1:
        problems.append(f"PET_NNODES={text} is not <min>:<max> with a min of 1 or more")
        return 1, 0
    return int(least), int(most or least)


def _count(
    name: str, environment: Mapping[str, str], default: int | None, problems: list[str]
) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not text.isdecimal():
        problems.append(f"{name}={text} is not a whole number from 0")
        return 0
    return int(text)


def _search_domain(resolver: Path) -> str:
    """Return what makes a Service's name complete, "" outside a cluster.

    A complete name is one question, which the cluster's DNS answers itself. A short one is tried
    with every search domain, at last outside the cluster, where an answer may take long seconds.
    """
    lines = resolver.read_text().splitlines() if resolver.exists() else []
    for line in lines:
        words = line.split()
        if words[:1] == ["search"]:
            return next((f".{word}." for word in words[1:] if ".svc." in f"{word}."), "")
    return ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
