"""A context of a person's kubeconfig becomes a document that works from anywhere, or is refused."""

import base64
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.kinds import CLUSTERS
from clusters.kubeconfig.choice import Choice, Unusable, choose
from clusters.kubeconfig.settings import KubeconfigSettings
from clusters.nodes import GpuPool, Taint
from core import toolchain
from core.validation import check
from tests.unit.shell_program import shell_program

LOGIN = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two kubeconfigs: `a` has the contexts a and b, `more` has c."""
    for name in ("ca.pem", "cert.pem", "key.pem", "token"):
        (tmp_path / name).write_text(f"content of {name}")
    shell_program(tmp_path / "bin" / "login", "")
    cluster = {"server": "https://a.example:6443", "certificate-authority": "ca.pem"}
    stamped = {**cluster, "extensions": [{"name": "minikube", "extension": {"last-update": "now"}}]}
    users = {"a": {"client-certificate": "cert.pem", "client-key": "key.pem"}, "b": {"token": "t"}}
    write(tmp_path / "a", {"a": stamped, "b": cluster}, users, current="a")
    write(tmp_path / "more", {"c": {"server": "https://c.example"}}, {"c": {"token": "t"}})
    return tmp_path


def write(
    file: Path, clusters: dict[str, Any], users: dict[str, Any], current: str | None = None
) -> None:
    """Write a kubeconfig in which cluster, user and context have one name."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": each} for name, each in clusters.items()],
        "users": [{"name": name, "user": each} for name, each in users.items()],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": "x"}}
            for name in clusters
        ],
    }
    file.write_text(yaml.safe_dump(document | ({"current-context": current} if current else {})))


def user(choice: Choice) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(choice.kubeconfig)["users"][0]["user"]
    return found


def refusal(file: Path, context: str | None = None) -> str:
    with pytest.raises(Unusable) as caught:
        choose(str(file), context)
    return str(caught.value)


def test_what_is_left_is_the_context_alone_with_its_files_in_it(folder: Path) -> None:
    choice = choose(str(folder / "a"), None)
    assert (choice.context, choice.server) == ("a", "https://a.example:6443")
    document = yaml.safe_load(choice.kubeconfig)
    assert [len(document[key]) for key in ("clusters", "users", "contexts")] == [1, 1, 1]
    assert document["current-context"] == "a"
    authority = document["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(authority) == b"content of ca.pem"
    assert base64.b64decode(user(choice)["client-key-data"]) == b"content of key.pem"
    # Nor what changes by itself, which would change something each time.
    left_out = (str(folder), "last-update", "namespace")
    assert [each for each in left_out if each in choice.kubeconfig] == []
    assert "key-data" not in repr(choice)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        # A command with a slash counts from the file's folder; any other is left to PATH.
        ({"exec": {**LOGIN, "command": "./bin/login"}}, "{folder}/bin/login"),
        ({"exec": {**LOGIN, "command": "login"}}, "login"),
        # A token in a file stays there, since it is renewed there.
        ({"tokenFile": "token"}, "{folder}/token"),
        ({"token": "t"}, "t"),
    ],
)
def test_what_a_user_logs_in_with_is_kept(
    folder: Path, given: dict[str, Any], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
    write(folder / "d", {"d": {"server": "https://d"}}, {"d": given}, "d")
    ((key, value),) = user(choose(str(folder / "d"), None)).items()
    assert key in given
    there = value["command"] if isinstance(value, dict) else value
    assert there == kept.format(folder=folder)


@pytest.mark.parametrize("read", [str, yaml.safe_load], ids=["text", "map"])
def test_a_content_is_taken_and_in_no_message(folder: Path, read: Callable[[str], Any]) -> None:
    content = read((folder / "more").read_text())
    choice = choose(None, "c", content)
    in_file = choose(str(folder / "more"), "c")
    assert choice == replace(in_file, path=None, files=choice.files)
    told = 'slipway:cluster.context: "d" is not in slipway:cluster.kubeconfig; allowed: c'
    with pytest.raises(Unusable, match=f"^{re.escape(told)}$"):
        choose(None, "d", content)
    for broken in ("a: [", {"kind": "Config"}):
        with pytest.raises(Unusable, match=r"^slipway:cluster\.kubeconfig (does|can't be read)"):
            choose(None, None, broken)


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a folder be the user's home, where no other kubeconfig is named."""
    kubectl = toolchain.path("kubectl")
    monkeypatch.setattr(toolchain, "path", lambda _name: kubectl)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("KUBECONFIG", "")


def test_several_files_are_one_and_the_default_path_is_the_users_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = os.pathsep.join(map(str, (folder / "a", folder / "gone", folder / "more")))
    monkeypatch.setenv("KUBECONFIG", both)
    assert choose(None, "c").server == "https://c.example"
    assert choose(None, None).context == "a"
    (folder / ".kube").mkdir()
    (folder / "more").rename(folder / ".kube" / "config")
    at_home(folder, monkeypatch)
    for path in (None, "~/.kube/config"):
        assert choose(path, "c").server == "https://c.example"


def test_a_file_that_is_not_there_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(folder / "gone") == f"slipway:cluster.path: {folder / 'gone'}: no such file."
    at_home(folder, monkeypatch)
    told = rf"{folder}/\.kube/config: no such file\..* in KUBECONFIG"
    with pytest.raises(Unusable, match=told):
        choose(None, None)


def test_a_kubeconfig_that_can_not_be_used_is_refused_with_the_reason(folder: Path) -> None:
    cluster = {"d": {"server": "https://d"}}
    write(folder / "lost", cluster, {"d": {}}, current="gone")
    dropped = {"auth-provider": {"name": "azure", "config": {}}}
    write(folder / "dropped", cluster, {"d": dropped}, "d")
    (folder / "nobody").write_text((folder / "dropped").read_text().replace("user: d\n", "\n"))
    (folder / "empty").write_text("apiVersion: v1\nkind: Config\n")
    (folder / "bad").write_text("a: [")
    for file, words in {
        "more": "slipway:cluster.context: is not set",  # with no current context
        "lost": '"gone", the current context, is not in',
        "dropped": 'auth-provider "azure", which Kubernetes clients no longer support',
        "nobody": "needs a cluster and a user; set both",
        "empty": "does not contain a context; specify",
        "bad": "did not find expected node content",
    }.items():
        assert words in refusal(folder / file)
    assert refusal(folder / "more").endswith("allowed: c")
    assert refusal(folder / "a", "aa") == (
        f'slipway:cluster.context: "aa" is not in {folder / "a"}; did you mean "a"? Allowed: a, b'
    )
    (folder / "ca.pem").unlink()
    assert f"open {folder / 'ca.pem'}: no such file" in refusal(folder / "a")


def test_the_setting_gpus_becomes_the_pool_of_jobs() -> None:
    taint = {"key": "sku", "value": "gpu"}
    gpus = {"perNode": 4, "nodes": 0, "maxNodes": 2, "labels": {"pool": "gpu"}, "taints": [taint]}
    images = {"trainer": "example.org/trainer:1", "trainerCuda": "example.org/cuda:1"}
    wanted = check(KubeconfigSettings, {"images": images, "gpus": gpus}, "slipway:cluster")
    kind = CLUSTERS["kubeconfig"]
    pool = GpuPool(4, min_nodes=0, max_nodes=2, labels={"pool": "gpu"}, device_plugin=False)
    assert kind.gpus(wanted) == replace(pool, taints=(Taint("sku", "gpu"),))
    without = check(KubeconfigSettings, {"images": images}, "slipway:cluster")
    assert kind.gpus(without) is None
    assert kind.pools(wanted) == ()
    assert kind.capacity(wanted) is None
