"""docker, recorded: containers are entries of a file. kind runs on top of it as it is.

It knows the commands and flags that kind v0.31 and Slipway use, and refuses all else; they are
those of https://docs.docker.com/reference/cli/docker/. What runs inside of a node succeeds and
prints nothing, but for what kind reads: the version, the kubeconfig, and containerd's images.
"""

from __future__ import annotations

import sys

from tests.doubles.recorded import Arguments, State, content, is_set, note, refuse
from tests.doubles.recorded_archive import ctr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FORMAT = {"--format": True, "-f": True}
_RUN = {
    **dict.fromkeys(
        ("--name", "--hostname", "--label", "--net", "--restart", "--security-opt", "--tmpfs",
         "--volume", "--publish", "-e", "--cgroupns", "--userns", "--sysctl", "--device"), True,
    ),
    **dict.fromkeys(("--detach", "--tty", "--init", "--privileged"), False),
}  # fmt: skip
_EXEC = {"--privileged": False, "-i": False, "-e": True}
_NETWORK = {"-d": True, "-o": True, "--ipv6": False, "--subnet": True, "--filter": True, **_FORMAT}
_IMAGE_CONFIG = """\
version = 3
[plugins]
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
"""


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    note("docker", arguments)
    if is_set("docker-is-down") and arguments[:1] != ["-v"]:
        refuse("Cannot connect to the Docker daemon. Is the docker daemon running?")
    command, rest = arguments[0], arguments[1:]
    if command not in _COMMANDS:
        refuse(f"docker: unknown command: docker {command}")
    sent = b""
    if command == "exec" and "-i" in rest:
        sent = sys.stdin.buffer.read()
    with State("docker") as kept:
        printed = _COMMANDS[command](kept.setdefault("containers", {}), rest, sent)
    sys.stdout.write(printed)


def _info(_containers: dict[str, Any], rest: list[str], _sent: bytes) -> str:
    if Arguments(rest, _FORMAT).last(*_FORMAT) == "{{json .}}":
        return '{"CgroupVersion": "2", "MemoryLimit": true, "PidsLimit": true, "CPUShares": true}\n'
    return "overlay2\n"


def _ps(containers: dict[str, Any], rest: list[str], _sent: bytes) -> str:
    given = Arguments(rest, {"-a": False, "--filter": True, **_FORMAT})
    key, _, value = (given.last("--filter") or "").removeprefix("label=").partition("=")
    found = {
        name: each["labels"][key]
        for name, each in containers.items()
        if key in each["labels"] and value in {"", each["labels"][key]}
    }
    is_by_name = given.last(*_FORMAT) == "{{.Names}}"
    return "".join(f"{name if is_by_name else label}\n" for name, label in found.items())


def _inspect(containers: dict[str, Any], rest: list[str], _sent: bytes) -> str:
    given = Arguments(rest, {"--type": True, **_FORMAT})
    if given.last("--type") == "image":
        return "[]\n"
    form, lines = given.last(*_FORMAT) or "", []
    for name in given.words:
        each = _of(containers, name)
        if "Labels" in form:
            lines.append(each["labels"].get(form.split('"')[1], ""))
        elif "Networks" in form:
            lines.append("172.18.0.2,")
        elif "Ports" in form:
            lines.append(f"127.0.0.1\t{content('port')}")
        elif "Mounts" in form:
            lines.append(" ".join(volume.split(":")[:2][-1] for volume in each["volumes"]))
        elif form == "{{.Name}} {{.State.Status}}":
            lines.append(f"/{name} {each['state']}")
        else:
            refuse(f"docker: the recorded one knows no such template: {form}")
    return "".join(f"{line}\n" for line in lines)


def _network(_containers: dict[str, Any], rest: list[str], _sent: bytes) -> str:
    Arguments(rest[1:], _NETWORK)
    return {"ls": "0123456789ab\n", "inspect": "1500\n"}.get(rest[0], "")


def _run(containers: dict[str, Any], rest: list[str], _sent: bytes) -> str:
    given = Arguments(rest, _RUN, inner=True)
    name = given.last("--name") or "unnamed"
    labels = dict(each.split("=", 1) for each in given.all("--label"))
    containers[name] = {
        "labels": labels,
        "state": "running",
        "image": given.words[0],
        "volumes": given.all("--volume"),
        "ports": given.all("--publish"),
        "images": {},
    }
    return f"{name}\n"


def _exec(containers: dict[str, Any], rest: list[str], sent: bytes) -> str:
    container, *command = Arguments(rest, _EXEC, inner=True).words
    each = _of(containers, container)
    if each["state"] != "running":
        refuse(f"Error response from daemon: container {container} is not running")
    if command[0] == "ctr":
        return ctr(each["images"], command[1:], sent)
    if command == ["containerd", "config", "dump"]:
        return _IMAGE_CONFIG
    if command == ["cat", "/kind/version"]:
        return "v1.35.0"
    if command == ["cat", "/etc/kubernetes/admin.conf"]:
        return content("admin.conf")
    if command[:2] == ["kubeadm", "init"] and is_set("kubeadm-fails"):
        refuse("[kubelet-check] The kubelet is not healthy after 4m0s")
    return "kind: Placeholder\n" if command[0] == "cat" else ""


def _rm(containers: dict[str, Any], rest: list[str], _sent: bytes) -> str:
    words = Arguments(rest, {"-f": False, "-v": False}).words
    for name in words:
        containers.pop(name, None)
    return "".join(f"{name}\n" for name in words)


def _set(containers: dict[str, Any], rest: list[str], to: str) -> str:
    words = Arguments(rest, {}).words
    for name in words:
        _of(containers, name)["state"] = to
    return "".join(f"{name}\n" for name in words)


def _of(containers: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in containers:
        refuse(f"Error: No such object: {name}")
    found: dict[str, Any] = containers[name]
    return found


_COMMANDS: dict[str, Callable[[dict[str, Any], list[str], bytes], str]] = {
    "-v": lambda *_: "Docker version 28.2.2, build e6534b4\n",
    "version": lambda *_: "28.2.2\n",
    "info": _info,
    "ps": _ps,
    "inspect": _inspect,
    "network": _network,
    "run": _run,
    "logs": lambda *_: "Reached target Multi-User System.\n",
    "exec": _exec,
    "rm": _rm,
    "start": lambda containers, rest, _: _set(containers, rest, "running"),
    "stop": lambda containers, rest, _: _set(containers, rest, "exited"),
}
