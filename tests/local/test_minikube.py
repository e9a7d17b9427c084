"""minikube's clusters: rendered, made, adopted, healed, and removed.

minikube is recorded (tests/doubles): what its command reference doesn't have it refuses.
"""

import json
from typing import Any

import pulumi
import pytest
import yaml

from clusters import owner
from clusters.cli_clusters.engine import Engine
from clusters.minikube import KIND
from clusters.minikube import cluster as minikube
from clusters.minikube.tool import MinikubeHandler, MinikubeTool, create_flags
from clusters.operator import CRD_PATH
from core import toolchain
from core.handler import UNKNOWN, Properties
from core.manifests import MADE_BY
from core.validation import check
from images.build.kind_node import MinikubeNode
from images.targets.target import by_digest, target_of
from tests.local.machine import IMAGE, READY, Machine, person_has_a_kubeconfig
from tests.unit.row import Row


def settings(**said: Any) -> minikube.MinikubeSettings:
    checked = check(minikube.MinikubeSettings, said, "slipway:cluster", base={"name": "team"})
    assert not isinstance(checked, list), checked
    return checked


def inputs(**said: Any) -> Properties:
    return {**minikube.inputs(settings(**said)), "owner": "slipway/team"}


def made(given: Properties) -> Properties:
    return {**given, **MinikubeHandler().create(given, Row())[1]}


def adopted(here: Machine) -> Properties:
    here.run("minikube", "start", "--profile=team", "--container-runtime=containerd")
    return made(inputs(adopt=True))


def changes(state: Properties, given: Properties) -> dict[str, tuple[bool, bool]]:
    found = MinikubeHandler().diff(state, given, Row())
    return {each.path: (each.drift, each.replace) for each in found}


def profiles(here: Machine) -> dict[str, Any]:
    found: dict[str, Any] = here.kept("minikube")["profiles"]
    return found


def starts(here: Machine) -> list[list[str]]:
    return [each for each in here.calls("minikube") if "start" in each]


def test_without_settings_it_is_the_machine_of_the_tutorial_in_minikubes_own_driver() -> None:
    flags = create_flags(inputs())
    assert {"--cpus=2", "--memory=6144mb", "--disk-size=51200mb"} <= set(flags)
    assert not any(flag.startswith(("--driver", "--force", "--mount")) for flag in flags)


def test_every_setting_is_a_flag_that_minikube_knows(here: Machine) -> None:
    here.nodes(READY, READY)
    made(
        inputs(
            driver="docker",
            cpus=4,
            memory="6144Mi",
            diskSize="60Gi",
            nodes=2,
            kubernetesVersion="v1.34.3",
            ports=[{"host": 8080, "node": 30080}],
            mount={"host": "/srv/images", "node": "/data"},
            force=True,
        )
    )
    (start,) = starts(here)
    assert {
        "--driver=docker",
        "--cpus=4",
        "--memory=6144mb",
        "--disk-size=61440mb",
        "--nodes=2",
        "--kubernetes-version=v1.34.3",
        "--ports=127.0.0.1:8080:30080/tcp",
        "--mount",
        "--mount-string=/srv/images:/data",
        "--force",
        "--container-runtime=containerd",
    } <= set(start)
    assert len(profiles(here)["team"]["nodes"]) == 2


def test_creating_a_cluster_prints_its_steps_and_deleting_leaves_nothing(here: Machine) -> None:
    own = person_has_a_kubeconfig(here.directory)
    row = Row()
    name, outputs = MinikubeHandler().create(inputs(), row)
    assert name == "team"
    assert "* Done! kubectl is now configured to use 'team'" in row.said
    assert (outputs["clusterId"], outputs["adopted"]) == ("the first", False)
    connection = yaml.safe_load(outputs["kubeconfig"])
    user, cluster = connection["users"][0]["user"], connection["clusters"][0]["cluster"]
    assert set(user) == {"client-certificate-data", "client-key-data"}
    assert set(cluster) == {"server", "certificate-authority-data"}
    MinikubeHandler().delete({**inputs(), **outputs}, Row())
    assert profiles(here) == {}
    assert MinikubeHandler().read({**inputs(), **outputs}, Row()) is None
    assert not MinikubeTool({"name": "team"}).directory.exists()
    assert (own.read_text(), own.stat().st_mtime) == ("# mine\n", 1)


def test_a_cluster_that_is_there_is_used_only_when_asked_and_never_deleted(here: Machine) -> None:
    here.run("minikube", "start", "--profile=team", "--container-runtime=containerd")
    with pytest.raises(RuntimeError, match=r"already has a cluster team.*slipway:cluster\.adopt"):
        made(inputs())
    here.api.says("GET", CRD_PATH, {"metadata": {}})
    with pytest.raises(RuntimeError, match="would delete customresourcedefinitions/pytorchjobs"):
        made(inputs(adopt=True))
    here.api.says("GET", CRD_PATH, {"metadata": {"annotations": {MADE_BY: "slipway/team"}}})
    state = made(inputs(adopt=True))
    assert state["adopted"] is True
    assert len(starts(here)) == 1  # it ran, so it was left as it was
    row = Row()
    MinikubeHandler().delete(state, row)
    assert "is kept" in row.said[0]
    assert list(profiles(here)) == ["team"]


def test_an_adopted_cluster_that_was_stopped_is_started_as_it_was_made(here: Machine) -> None:
    state = adopted(here)
    here.run("minikube", "stop", "--profile=team")
    MinikubeHandler().update(state, inputs(adopt=True, cpus=8), Row())
    assert profiles(here)["team"]["Host"] == "Running"
    assert not any("--cpus" in word for word in starts(here)[-1])


def test_a_cluster_whose_runtime_knows_no_digests_is_not_adopted(here: Machine) -> None:
    here.run("minikube", "start", "--profile=team")
    with pytest.raises(RuntimeError, match=r"runtime is docker, but only containerd identifies"):
        made(inputs(adopt=True))


def test_a_cluster_that_was_stopped_is_started_and_one_of_an_interrupted_creation_removed(
    here: Machine,
) -> None:
    given = inputs()
    state = made(given)
    # minikube notes in its kubeconfig when it wrote it, which must not look like a change.
    assert changes(state, given) == changes(state, given) == {}
    here.run("minikube", "stop", "--profile=team")
    assert not target_of({"kind": "minikube", "profile": "team"}, KIND.image_targets).is_up
    assert changes(state, given) == {"nodes": (True, False)}
    row = Row()
    MinikubeHandler().update(state, given, row)
    assert any("repairing nodes: team: Host is Stopped" in said for said in row.said)
    assert changes(state, given) == {}
    here.run("minikube", "stop", "--profile=team")
    MinikubeHandler().create(given, row)
    assert "removing team, which an interrupted run left behind" in row.said
    owner.new_token(MinikubeTool({"name": "team"}).directory)  # so it is another profile
    with pytest.raises(RuntimeError, match=r"already.*: minikube delete --profile team$"):
        made(given)


@pytest.fixture
def offline(here: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """That machine where the nodes' image was built, as its registry can't be reached."""
    file = toolchain.record()
    tools = json.loads(file.read_text())["tools"]
    for name in ("kubelet", "kubeadm"):
        tools[name] = {"path": "/bin/true", "version": "v1.34.4", "origin": "a test"}
    file.write_text(json.dumps({"tools": tools}))
    monkeypatch.setattr(MinikubeNode, "is_provided", lambda: True)
    monkeypatch.setattr(Engine, "provide", lambda *_: "localhost/slipway-minikube-node:0123")
    return here


def test_without_a_registry_the_nodes_are_of_an_image_that_is_built_and_nothing_is_fetched(
    offline: Machine,
) -> None:
    made(inputs(driver="docker"))
    (start,) = starts(offline)
    assert {
        "--base-image=localhost/slipway-minikube-node:0123",
        "--kubernetes-version=v1.34.4",
        "--preload=false",
        "--cache-images=false",
        "--install-addons=false",
    } < set(start)
    (applied,) = [each for each in offline.calls("minikube") if "apply" in each]
    assert applied[-1] == "/kind/manifests/default-storage.yaml"


def test_without_a_registry_another_version_of_kubernetes_is_refused(offline: Machine) -> None:
    told = r"^slipway:cluster\.kubernetesVersion: v1\.33\.1 is not available; set v1\.34\.4"
    with pytest.raises(RuntimeError, match=told):
        made(inputs(driver="docker", kubernetesVersion="v1.33.1"))
    assert starts(offline) == []


def test_a_failure_passes_on_minikubes_message_and_advice(here: Machine) -> None:
    (here.directory / "minikube-fails").touch()
    with pytest.raises(RuntimeError, match=r"docker is not running\n.*Start the docker service"):
        made(inputs())


def test_an_image_is_brought_into_every_node_and_known_by_its_digest(here: Machine) -> None:
    here.nodes(READY, READY)
    made(inputs(nodes=2))
    target = target_of({"kind": "minikube", "profile": "team"}, KIND.image_targets)
    assert target.is_up
    target.load(here.archive(IMAGE), IMAGE, Row())
    digest = target.digest(IMAGE)
    assert digest is not None
    pinned = by_digest(IMAGE, digest)
    target.tag(IMAGE, pinned)
    target.remove(IMAGE)
    assert [[*each] for each in profiles(here)["team"]["nodes"].values()] == [[pinned]] * 2


def test_without_minikube_a_preview_warns_and_up_refuses_before_anything_is_made(
    here: Machine,
) -> None:
    here.without("minikube")
    (here.directory / "docker-is-down").touch()
    given, row = inputs(driver="docker"), Row()
    known = MinikubeHandler().preview(None, given, given, row)
    assert known["kubeconfig"] is UNKNOWN
    assert "`up` will fail without this: minikube: not among the tools in" in row.said[0]
    assert "docker does not work" in row.said[1]
    with pytest.raises(
        RuntimeError, match=r"(?s)minikube: not among the tools.*docker does not work"
    ):
        made(given)
    assert here.calls("minikube") == []


def test_each_node_has_what_the_settings_give_it_less_what_kubernetes_asks_for() -> None:
    small, large = minikube.capacity(settings()), minikube.capacity(settings(cpus=4, nodes=3))
    assert (small.nodes, large.nodes) == (1, 3)
    assert 1 < small.cpu < 2
    assert large.cpu == small.cpu + 2
    assert small.memory < 6 * 2**30


def test_a_mount_of_what_is_not_there_is_refused_before_anything_is_declared() -> None:
    told = r"^slipway:cluster\.mount\.host: /nonexistent does not exist on this machine; create it"
    with pytest.raises(pulumi.RunError, match=told):
        minikube.provision(settings(mount={"host": "/nonexistent", "node": "/a"}))
