"""minikube, recorded: a profile is an entry of a file, and its nodes answer `ssh` alone.

A command or flag that minikube's command reference doesn't have is refused;
`minikube_reference.json` has both, with the page that each is from.
"""

# ruff: noqa: PTH103, PTH107, PTH110, PTH111, PTH113, PTH118, PTH120, PTH123
# pathlib and typing take longer to import than all the rest.
from __future__ import annotations

import json
import os
import sys

from tests.doubles.recorded import Arguments, State, content, is_set, note, place, refuse
from tests.doubles.recorded_archive import ctr, tagged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

with open(os.path.join(os.path.dirname(__file__), "minikube_reference.json")) as _file:
    _REFERENCE = json.load(_file)
_EVERY: dict[str, bool] = _REFERENCE["every"]["flags"]
_PARTS = ("Host", "Kubelet", "APIServer")


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    note("minikube", arguments)
    command, rest = _command(arguments)
    flags = {**_EVERY, **_REFERENCE["commands"][command]["flags"]}
    given = Arguments(rest, flags, inner=command == "ssh")
    name = given.last("--profile") or "minikube"
    with State("minikube") as kept:
        printed, code = _COMMANDS[command](kept.setdefault("profiles", {}), name, given)
    sys.stdout.write(printed)
    sys.exit(code)


def _command(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the command, and what is left of the command line: global flags may come first."""
    first = [each for each in arguments if each.startswith("--")]
    before = first[: next((i for i, each in enumerate(arguments) if each not in first), 0)]
    rest = arguments[len(before) :]
    for length in (2, 1):
        command = " ".join(rest[:length])
        if command in _REFERENCE["commands"]:
            return command, [*before, *rest[length:]]
    return refuse(f'Error: unknown command "{" ".join(rest[:2])}" for "minikube"')


def _start(profiles: dict[str, Any], name: str, given: Arguments) -> tuple[str, int]:
    sys.stdout.write(f"* [{name}] minikube v1.36.0\n")
    if is_set("minikube-fails"):
        _failed("PROVIDER_DOCKER_NOT_RUNNING", "docker is not running", "Start the docker service")
    if name not in profiles:
        os.makedirs(os.path.expanduser("~/.minikube"), exist_ok=True)
        count = int(given.last("--nodes") or 1)
        names = [name, *(f"{name}-m{number:02}" for number in range(2, count + 1))]
        options = [each.partition(".")[2].split("=", 1) for each in given.all("--extra-config")]
        profiles[name] = {
            "options": options,
            "runtime": given.last("--container-runtime") or "docker",
            "nodes": {each: {} for each in names},
        }
    profiles[name].update(dict.fromkeys(_PARTS, "Running"))
    _write_kubeconfig(name)
    return f"* Done! kubectl is now configured to use {name!r}\n", 0


def _delete(profiles: dict[str, Any], name: str, _given: Arguments) -> tuple[str, int]:
    if os.path.exists(_kubeconfig()):
        os.remove(_kubeconfig())
    profiles.pop(name, None)
    return f"Removed all traces of the {name!r} cluster.\n", 0


def _status(profiles: dict[str, Any], name: str, given: Arguments) -> tuple[str, int]:
    profile = _of(profiles, name)
    if given.last("--output") != "json":
        refuse("the recorded one prints its status in JSON alone")
    parts = {part: profile[part] for part in _PARTS}
    # A worker that is stopped has an API server that is.
    worker = {**parts, "APIServer": parts["APIServer"].replace("Running", "Irrelevant")}
    rows = [{"Name": node, **(parts if node == name else worker)} for node in profile["nodes"]]
    code = 0 if set(parts.values()) == {"Running"} else 7
    return json.dumps(rows[0] if len(rows) == 1 else rows), code


def _profile_list(profiles: dict[str, Any], _name: str, given: Arguments) -> tuple[str, int]:
    if given.last("--output") != "json":
        refuse("the recorded one lists its profiles in JSON alone")
    valid = []
    for name, each in profiles.items():
        options = [
            {"Component": "kubelet", "Key": key, "Value": value} for key, value in each["options"]
        ]
        config = {"ContainerRuntime": each["runtime"], "ExtraOptions": options}
        shown = {"Name": name, "Status": each["Host"], "Config": {"KubernetesConfig": config}}
        valid.append(shown)
    return json.dumps({"invalid": [], "valid": valid}) + "\n", 0


def _update_context(profiles: dict[str, Any], name: str, _given: Arguments) -> tuple[str, int]:
    _of(profiles, name)
    _write_kubeconfig(name)
    return f'"{name}" context has been updated\n', 0


def _image_load(profiles: dict[str, Any], name: str, given: Arguments) -> tuple[str, int]:
    archive = given.words[0]
    if not os.path.isfile(archive):
        _failed("GUEST_IMAGE_LOAD", f"Failed to load image: {archive} is no file", "")
    with open(archive, "rb") as file:
        sent = file.read()
    for images in _of(profiles, name)["nodes"].values():
        images.update(tagged(sent))
    return "", 0


def _ssh(profiles: dict[str, Any], name: str, given: Arguments) -> tuple[str, int]:
    nodes = _of(profiles, name)["nodes"]
    node = given.last("--node") or name
    if node not in nodes:
        _failed("GUEST_NODE_RETRIEVE", f"retrieving node: {node}", "")
    sudo, program, *rest = given.words
    if program == "kubectl":
        return "", 0
    if (sudo, program) != ("sudo", "ctr"):
        refuse(f"the recorded node runs ctr and kubectl alone, and not {given.words}")
    return ctr(nodes[node], rest), 0


def _stop(profiles: dict[str, Any], name: str, _given: Arguments) -> tuple[str, int]:
    _of(profiles, name).update(dict.fromkeys(_PARTS, "Stopped"))
    return "", 0


def _of(profiles: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in profiles:
        refuse(
            f'* Profile "{name}" not found. Run "minikube profile list" to view all profiles.', 85
        )
    found: dict[str, Any] = profiles[name]
    return found


def _failed(name: str, message: str, advice: str) -> NoReturn:
    """Say what minikube says, as its pkg/minikube/out/out.go writes it without a terminal."""
    suggestion = f"* Suggestion: {advice}\n" if advice else ""
    refuse(f"X Exiting due to {name}: {message}\n{suggestion}", 69)


def _kubeconfig() -> str:
    """Return the file that minikube would write to: the person's own unless told otherwise."""
    return os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")


def _write_kubeconfig(name: str) -> None:
    """Write what minikube writes: names of files, and notes that change each time."""
    notes = [{"name": "cluster_info", "extension": {"last-update": str(os.getpid())}}]
    server = f"https://127.0.0.1:{content('port')}"
    files = {part: place(part) for part in ("ca.crt", "client.crt", "client.key")}
    cluster = {"server": server, "certificate-authority": files["ca.crt"], "extensions": notes}
    user = {"client-certificate": files["client.crt"], "client-key": files["client.key"]}
    context = {"cluster": name, "user": name, "extensions": notes}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    os.makedirs(os.path.dirname(_kubeconfig()), exist_ok=True)
    with open(_kubeconfig(), "w") as file:
        json.dump(document, file)


_COMMANDS: dict[str, Callable[[dict[str, Any], str, Arguments], tuple[str, int]]] = {
    "start": _start,
    "delete": _delete,
    "status": _status,
    "profile list": _profile_list,
    "update-context": _update_context,
    "image load": _image_load,
    "ssh": _ssh,
    "stop": _stop,
    "version": lambda *_: ("minikube version: v1.36.0\n", 0),
}
