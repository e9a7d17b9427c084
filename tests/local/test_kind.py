"""kind's clusters: rendered, made, adopted, healed, and removed.

kind is the real one throughout; the docker beneath it is recorded (tests/doubles).
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters import owner
from clusters.kind import KIND
from clusters.kind import cluster as kind
from clusters.kind.tool import KindHandler, KindTool
from core.handler import UNKNOWN, Properties
from core.process import CommandFailed
from core.validation import check
from images.targets.target import by_digest, target_of
from tests.local.machine import IMAGE, NOT_READY, READY, Machine, person_has_a_kubeconfig
from tests.unit.row import Row

ONE_NODE = {"workers": 0}


def settings(**said: Any) -> kind.KindSettings:
    checked = check(kind.KindSettings, said, "slipway:cluster", base={"name": "team"})
    assert not isinstance(checked, list), checked
    return checked


def inputs(*, adopt: bool = False, **said: Any) -> Properties:
    config = kind.config(settings(**{**ONE_NODE, **said}))
    return {"name": "team", "owner": "slipway/team", "config": config, "adopt": adopt}


def made(here: Machine, given: Properties) -> Properties:
    """Return the state of a cluster that is there.

    kind makes each only once for all tests: it takes it a second or two.
    """
    key = json.dumps(given["config"])
    if key not in here.clusters:
        _, outputs = KindHandler().create(given, Row())
        token = (KindTool({"name": "team"}).directory / "token").read_text()
        here.clusters[key] = here.kept("docker"), outputs, token
    kept, outputs, token = here.clusters[key]
    here.keep("docker", kept)
    directory = KindTool({"name": "team"}).directory
    owner.claim(directory, "slipway/team")
    (directory / "token").write_text(token)
    return {**given, **outputs}


def adopted(here: Machine) -> Properties:
    """Return the state of a cluster that somebody else has made."""
    made(here, inputs())
    shutil.rmtree(KindTool({"name": "team"}).directory)
    given = inputs(adopt=True)
    return {**given, **KindHandler().create(given, Row())[1]}


def containers(here: Machine) -> dict[str, Any]:
    found = here.kept("docker")["containers"]
    return {name: found[name] for name in sorted(found)}


def changes(state: Properties, given: Properties) -> dict[str, tuple[bool, bool]]:
    found = KindHandler().diff(state, given, Row())
    return {each.path: (each.drift, each.replace) for each in found}


EVERYTHING: dict[str, Any] = {
    "controlPlanes": 1,
    "workers": 2,
    "image": "kindest/node:v1.34.3",
    "reserved": {"cpu": "500m", "memory": "1Gi"},
    "ports": [{"host": 8080, "node": 30080}, {"host": 53, "node": 30053, "protocol": "UDP"}],
    "mounts": [{"host": "/srv/images", "node": "/data", "readOnly": True}],
}


def test_a_cluster_is_made_and_known_by_a_kubeconfig_that_is_secret(here: Machine) -> None:
    own = person_has_a_kubeconfig(here.directory)
    row = Row()
    name, outputs = KindHandler().create(inputs(), row)
    assert name == "team"
    assert list(containers(here)) == ["team-control-plane"]
    connection = yaml.safe_load(outputs["kubeconfig"])
    assert connection["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")
    assert (outputs["clusterId"], outputs["adopted"]) == ("the first", False)
    assert "kubeconfig" in KindHandler.secret_outputs
    assert any("Starting control-plane" in said for said in row.said)
    assert (own.read_text(), own.stat().st_mtime) == ("# mine\n", 1)


def test_kind_takes_every_setting_and_ports_mounts_and_nodes_reach_the_engine(
    here: Machine,
) -> None:
    config = kind.config(settings(**EVERYTHING))
    assert [each["role"] for each in config["nodes"]] == ["control-plane", "worker", "worker"]
    assert {each["image"] for each in config["nodes"]} == {"kindest/node:v1.34.3"}
    assert not any("extraPortMappings" in each for each in config["nodes"][1:])
    (patch,) = config["kubeadmConfigPatches"]
    assert yaml.safe_load(patch)["systemReserved"] == {"cpu": "500m", "memory": "1Gi"}
    here.nodes(READY, READY, READY)
    KindHandler().create(inputs(**EVERYTHING), Row())
    found = containers(here)
    assert list(found) == ["team-control-plane", "team-worker", "team-worker2"]
    ports = found["team-control-plane"]["ports"]
    assert {"127.0.0.1:8080:30080/TCP", "127.0.0.1:53:30053/UDP"} <= {*ports}
    assert all("/srv/images:/data:ro" in each["volumes"] for each in found.values())


def test_a_cluster_that_is_there_is_used_only_when_asked_and_never_deleted(here: Machine) -> None:
    made(here, inputs())
    shutil.rmtree(KindTool({"name": "team"}).directory)  # so it is somebody else's
    with pytest.raises(RuntimeError, match=r"already has a cluster team.*slipway:cluster\.adopt"):
        KindHandler().create(inputs(), Row())
    state = adopted(here)
    assert state["adopted"] is True
    row = Row()
    KindHandler().delete(state, row)
    assert "is kept" in row.said[0]
    assert list(containers(here)) == ["team-control-plane"]


def test_what_a_cluster_is_made_with_needs_another_one_unless_it_was_adopted(
    here: Machine,
) -> None:
    state = made(here, inputs())
    assert changes(state, inputs(workers=1)) == {"config.nodes": (False, True)}
    assert changes(state, {**inputs(), "name": "other"}) == {"name": (False, True)}
    assert changes(state, inputs(adopt=True)) == {"adopt": (False, False)}
    state = adopted(here)
    assert changes(state, inputs(adopt=True, workers=3)) == {"config.nodes": (False, False)}


def test_nodes_that_were_stopped_are_started(here: Machine) -> None:
    given = inputs()
    state = made(here, given)
    assert changes(state, given) == {}
    assert here.api.asked
    here.run("docker", "stop", "team-control-plane")
    assert changes(state, given) == {"nodes": (True, False)}
    row = Row()
    outputs = KindHandler().update(state, given, row)
    assert any("repairing nodes: team-control-plane is exited" in said for said in row.said)
    assert containers(here)["team-control-plane"]["state"] == "running"
    assert outputs["clusterId"] == "the first"


def test_a_deleted_cluster_is_created_again_with_another_identity(here: Machine) -> None:
    given = inputs()
    state = made(here, given)
    here.run("docker", "rm", "-f", "team-control-plane")
    assert changes(state, given) == {"cluster": (True, False)}
    known = KindHandler().preview(state, given, given, Row())
    assert known["kubeconfig"] is UNKNOWN
    assert known["clusterId"] is UNKNOWN
    here.identity("the second")
    outputs = KindHandler().update(state, given, Row())
    assert outputs["clusterId"] == "the second"
    assert KindHandler().read({**given, **outputs}, Row()) == outputs


def test_a_node_that_is_not_ready_is_drift_and_ends_the_wait_with_what_was_seen(
    here: Machine,
) -> None:
    given = inputs()
    state = made(here, given)
    here.nodes(NOT_READY)
    assert changes(state, given) == {"nodes": (True, False)}
    with pytest.raises(TimeoutError, match=r"of waiting for .*container runtime is down"):
        KindHandler().update(state, given, Row())


@pytest.mark.usefixtures("here")
def test_a_missing_node_times_out_with_the_expected_count() -> None:
    with pytest.raises(TimeoutError, match=r"nodes: only 1 of 2 exist"):
        KindHandler().create(inputs(workers=1), Row())


def test_a_cluster_of_the_users_under_the_name_of_an_interrupted_creation_is_never_removed(
    here: Machine,
) -> None:
    """The note is from a creation that was stopped before there was a cluster."""
    state, directory = made(here, inputs()), KindTool({"name": "team"}).directory
    owner.new_token(directory)
    with pytest.raises(RuntimeError, match=r"already.*: kind delete cluster --name team$"):
        KindHandler().create(inputs(), Row())
    with pytest.raises(RuntimeError, match=f"to keep it, run: rm -r {directory}$"):
        KindHandler.remove(directory)
    assert KIND.remains(settings(), "slipway/team") == {
        "kind clusters": [f"kind's cluster team: rm -r {directory}"]
    }
    with pytest.raises(
        RuntimeError, match=r"this stack did not create\. Set slipway:cluster\.adopt"
    ):
        KindHandler().update(state, inputs(), Row())
    row = Row()
    KindHandler().delete(state, row)
    assert "team is not the cluster that this stack created, so it is kept" in row.said
    assert list(containers(here)) == ["team-control-plane"]
    owner.claim(directory, "slipway/team")
    owner.new_token(directory)
    assert KindHandler().create(inputs(adopt=True), Row())[1]["adopted"] is True
    assert not directory.exists()
    assert not directory.exists()


def test_a_cluster_from_before_there_were_tokens_goes_by_its_identity(here: Machine) -> None:
    state, directory = made(here, inputs()), KindTool({"name": "team"}).directory
    (directory / "token").unlink()
    here.api.says("GET", "/api/v1/namespaces/kube-system", {"message": "shut down"}, status=500)
    with pytest.raises(RuntimeError, match=r"can't tell whether.*shut down.*kind delete cluster"):
        KindHandler().delete(state, Row())
    here.identity("the user's own")
    KindHandler().delete(state, Row())
    assert list(containers(here)) == ["team-control-plane"]
    here.identity("the first")
    KindHandler().delete(state, Row())
    assert containers(here) == {}


def test_what_an_interrupted_creation_left_is_removed(here: Machine) -> None:
    """The token is in a node from its container on, running or not."""
    given = inputs()
    made(here, given)
    here.run("docker", "stop", "team-control-plane")
    row = Row()
    KindHandler().create(given, row)
    assert "removing team, which an interrupted run left behind" in row.said
    assert containers(here)["team-control-plane"]["state"] == "running"
    here.run("docker", "stop", "team-control-plane")
    assert KIND.own is not None
    KIND.own.remove(KindTool({"name": "team"}).directory)  # as `make down` does
    assert containers(here) == {}


def test_a_failure_of_kind_is_passed_on_and_leaves_no_container(here: Machine) -> None:
    (here.directory / "kubeadm-fails").touch()
    with pytest.raises(RuntimeError, match=r"failed to init node with kubeadm"):
        KindHandler().create(inputs(), Row())
    assert containers(here) == {}


@pytest.mark.usefixtures("here")
def test_ctrl_c_ends_the_making() -> None:
    row = Row()
    row.cancelled.set()
    with pytest.raises(InterruptedError):
        KindHandler().create(inputs(), row)
    assert KindTool({"name": "team"}).directory.exists()  # so the next run knows whose it is


def test_deleting_removes_the_cluster_and_is_done_when_there_is_none(here: Machine) -> None:
    own = person_has_a_kubeconfig(here.directory)
    given = inputs()
    state = made(here, given)
    for _ in range(2):
        KindHandler().delete(state, Row())
        assert containers(here) == {}
    assert not KindTool({"name": "team"}).directory.exists()
    assert (own.read_text(), own.stat().st_mtime) == ("# mine\n", 1)
    assert KindHandler().read(state, Row()) is None


def test_an_image_is_brought_into_every_node_and_known_by_its_digest(here: Machine) -> None:
    here.nodes(READY, READY)
    made(here, inputs(workers=1))
    target = target_of({"kind": "kind", "cluster": "team"}, KIND.image_targets)
    assert target.is_up
    assert target.digest(IMAGE) is None
    target.load(here.archive(IMAGE), IMAGE, Row())
    digest = target.digest(IMAGE)
    assert digest is not None
    pinned = by_digest(IMAGE, digest)
    target.tag(IMAGE, pinned)
    assert [each["images"] for each in containers(here).values()] == [
        {IMAGE: digest, pinned: digest}
    ] * 2
    worker = ("docker", "exec", "team-worker", "ctr", "--namespace=k8s.io", "images")
    here.run(*worker, "remove", IMAGE)
    assert target.digest(IMAGE) is None, "one node lacks it"
    assert target.digest(pinned) == digest
    target.remove(IMAGE)
    assert [[*each["images"]] for each in containers(here).values()] == [[pinned]] * 2


def test_a_cluster_that_is_gone_has_no_images_to_ask_for(here: Machine) -> None:
    target = target_of({"kind": "kind", "cluster": "team"}, KIND.image_targets)
    assert not target.is_up
    with pytest.raises(CommandFailed, match="no nodes found"):
        target.load(here.archive(IMAGE), IMAGE, Row())


def test_without_kind_or_an_engine_a_preview_warns_and_up_refuses_before_anything_is_made(
    here: Machine,
) -> None:
    here.without("kind")
    (here.directory / "docker-is-down").touch()
    given, row = inputs(), Row()
    known = KindHandler().preview(None, given, given, row)
    assert known["kubeconfig"] is UNKNOWN
    assert len(row.said) == 2
    assert "`up` will fail without this: kind: not among the tools in" in row.said[0]
    assert "docker does not work" in row.said[1]
    with pytest.raises(
        RuntimeError, match=r"(?s)kind: not among the tools.*docker does not work.*Start it"
    ):
        KindHandler().create(given, Row())
    assert not KindTool({"name": "team"}).directory.exists()


def test_without_a_container_engine_the_error_lists_the_supported_ones(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(here.directory / "nowhere"))
    with pytest.raises(RuntimeError, match=r"no container engine \(docker, nerdctl, podman\)"):
        KindHandler().create(inputs(), Row())


def test_a_cluster_does_not_count_as_deleted_while_its_engine_is_down(here: Machine) -> None:
    given = inputs()
    state = made(here, given)
    (here.directory / "docker-is-down").touch()
    assert changes(state, given) == {"tools": (True, False)}
    with pytest.raises(RuntimeError, match="docker does not work"):
        KindHandler().read(state, Row())


def test_leftovers_are_listed_only_for_clusters_of_this_stack(here: Machine) -> None:
    made(here, inputs())
    command = f"kind delete cluster --name team && rm -r {KindTool({'name': 'team'}).directory}"
    assert KIND.remains(settings(), "slipway/kind") == {
        "kind clusters": [f"kind's cluster team: {command}"]
    }
    shutil.rmtree(KindTool({"name": "team"}).directory)
    assert KIND.remains(settings(), "slipway/kind") == {"kind clusters": []}
    assert list(containers(here)) == ["team-control-plane"]


def test_the_nodes_share_this_machines_memory_and_keep_what_is_reserved() -> None:
    one, two = kind.capacity(settings(workers=1)), kind.capacity(settings(workers=2))
    assert (one.nodes, two.nodes) == (1, 2)
    assert one.cpu == two.cpu
    assert two.memory < one.memory / 2
    kept = kind.capacity(settings(workers=1, reserved={"cpu": "500m"}))
    assert one.cpu - kept.cpu == pytest.approx(0.5)
    alone = kind.capacity(settings(workers=0))
    assert alone.cpu < one.cpu  # it runs Kubernetes itself besides


def test_a_mount_of_what_is_not_there_is_refused_before_anything_is_declared(
    tmp_path: Path,
) -> None:
    mounts = [{"host": str(tmp_path), "node": "/a"}, {"host": f"{tmp_path}/no", "node": "/b"}]
    why = f"{tmp_path}/no does not exist on this machine; create it"
    told = rf"^slipway:cluster\.mounts\[1\]\.host: {why}"
    with pytest.raises(pulumi.RunError, match=told) as caught:
        kind.provision(settings(mounts=mounts))
    assert "mounts[0]" not in str(caught.value)
