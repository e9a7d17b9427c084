"""The embedded cluster, real, in a directory of its own: made, hurt, healed, removed.

The tests run in order, after those that only use it: each leaves the cluster well, and the last
one removes it.
"""

import ipaddress
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import requests

from clusters.embedded import health, host, isolation, lifecycle, network, pki, supervisor
from clusters.embedded.components import components
from clusters.embedded.layout import Layout
from core import kube, toolchain
from core.manifests import Manifest, restricted_namespace
from core.paths import CHECKOUT
from core.process import CommandFailed, run
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.embedded_cluster import TestCluster, kernel_parameters, restricted_pod
from tests.engine.procfs import everyone

NAMESPACE = "restricted"
CANARY = "canary-5f2c9e"


def test_an_interrupted_create_is_adopted_and_names_resolve_in_the_nodes_network(
    cluster: TestCluster,
) -> None:
    assert cluster.problems() == []
    said = health.lookup(cluster.layout, "kube-dns.kube-system.svc.cluster.local")
    assert said.split()[0] == "10.96.0.10"


def test_one_command_starts_it_and_ends_when_coredns_answers(cluster: TestCluster) -> None:
    """A program left in the background must not hold the pipe open."""
    lifecycle.halt(cluster.layout)
    done = subprocess.run(
        cluster.create_command, cwd=CHECKOUT,
        capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
    )  # fmt: skip
    assert cluster.problems() == []
    assert done.returncode == 0, done.stderr
    assert "coredns is responding" in done.stdout


def test_anonymous_requests_are_refused_and_nothing_else_listens_for_the_host(
    cluster: TestCluster,
) -> None:
    ca, node = str(cluster.layout.certificate("ca")), cluster.layout.node_address
    for place in ("6443/readyz", "6443/api", "10250/pods", "10250/healthz"):
        # By no proxy.
        asked = requests.get(f"https://{node}:{place}", verify=ca, timeout=5, proxies={"https": ""})
        assert asked.status_code == 401, place
    for port in (2379, 2380, 10248, 10249, 10256, 10257, 10259):
        with socket.socket() as probe:
            probe.settimeout(5)
            assert probe.connect_ex((str(node), port)) != 0, port


@pytest.fixture
def stranger(cluster: TestCluster) -> Iterator[str]:
    """An address that stands for another machine's, of a range that is for tests alone.

    https://www.rfc-editor.org/rfc/rfc2544#appendix-C.2.2
    """
    # One that no other cluster's tests take: the end of a node's address is that node's alone.
    address = str(ipaddress.IPv4Address("198.18.0.0") + int(cluster.layout.node_address) % 2**16)
    run(host.path("ip"), "address", "add", f"{address}/32", "dev", "lo")
    yield address
    run(host.path("ip"), "address", "delete", f"{address}/32", "dev", "lo")


def _dropped(cluster: TestCluster) -> int:
    table = (host.path("nft"), "list", "table", "inet", "slipway")
    shown = run(*network.enter(cluster.layout), *table)
    found = re.search(r"counter packets (\d+)", shown)
    assert found is not None, shown
    return int(found[1])


def test_what_the_host_forwards_for_another_machine_is_dropped(
    cluster: TestCluster, stranger: str
) -> None:
    before = _dropped(cluster)
    with socket.socket() as probe:
        probe.settimeout(1.5)
        probe.bind((stranger, 0))
        assert probe.connect_ex((str(cluster.layout.node_address), 6443)) != 0
    assert _dropped(cluster) > before


def test_a_node_may_not_act_as_another(cluster: TestCluster) -> None:
    layout = cluster.layout
    as_node = (
        f"--server={layout.api_url}",
        f"--certificate-authority={layout.certificate('ca')}",
        f"--client-certificate={layout.certificate('kubelet-client')}",
        f"--client-key={layout.key('kubelet-client')}",
    )
    create = ("create", "configmap", "taken", "--namespace=kube-system")
    own = {"KUBECONFIG": os.devnull}  # the user's would be merged with these
    with pytest.raises(CommandFailed, match=r"(?i)forbidden"):
        run(host.path("kubectl"), *as_node, *create, variables=own)


def test_secrets_are_encrypted_where_they_are_stored(cluster: TestCluster) -> None:
    for kind in ("secret generic", "configmap"):
        literal = f"--from-literal=word={CANARY}-{kind.split()[0]}"
        cluster.kubectl("create", *kind.split(), "canary", literal)
    files = filter(Path.is_file, (cluster.layout.directory / "etcd").rglob("*"))
    stored = b"".join(map(Path.read_bytes, files))
    assert f"{CANARY}-configmap".encode() in stored, "the test looks in the wrong place"
    assert f"{CANARY}-secret".encode() not in stored
    assert cluster.layout.encryption.stat().st_mode & 0o077 == 0


def test_the_machines_kernel_parameters_are_left_alone(
    cluster: TestCluster, kernel_before: list[str]
) -> None:
    assert cluster.processes()["kubelet"]
    assert kernel_parameters() == kernel_before


def _run_pod(cluster: TestCluster, name: str, *arguments: str, claim: str | None = None) -> str:
    """Run kubectl in a pod, which has to succeed, and return what it printed."""
    pod = restricted_pod(name, *arguments, claim=claim)
    cluster.kubectl("apply", "--namespace", NAMESPACE, "--filename=-", manifests=[pod])
    where = ("pod", name, "--namespace", NAMESPACE)

    def phase() -> str:
        return str(cluster.get(*where)["status"]["phase"])

    await_true(
        lambda: phase() in {"Succeeded", "Failed"},
        otherwise=lambda: cluster.kubectl("describe", *where),
    )
    logs = cluster.kubectl("logs", name, "--namespace", NAMESPACE)
    assert phase() == "Succeeded", logs
    return logs


def test_a_non_root_pod_writes_to_a_volume_of_the_default_class(cluster: TestCluster) -> None:
    size = {"resources": {"requests": {"storage": "3Ti"}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], **size},
    }
    objects = [restricted_namespace(NAMESPACE), claim]
    cluster.kubectl("apply", "--filename=-", manifests=objects)
    cluster.add_kubectl_image()
    write = ("config", "set-cluster", "written", "--kubeconfig=/data/config")
    _run_pod(cluster, "write", *write, claim="data")
    (directory,) = cluster.layout.volumes.iterdir()
    written = (directory / "config").stat()
    assert (written.st_uid, written.st_gid) == (4711, 4712)


def test_a_pod_reaches_a_service_by_its_name(cluster: TestCluster) -> None:
    said = _run_pod(cluster, "ask", "auth", "whoami")
    assert f"system:serviceaccount:{NAMESPACE}:default" in said


def test_killed_components_come_back_by_themselves(cluster: TestCluster) -> None:
    before = cluster.processes()
    assert len(before) == len(components(cluster.layout))
    cluster.kill(*before.values())
    await_true(
        lambda: cluster.processes().keys() == before.keys() and not cluster.problems(),
        otherwise=lambda: f"{cluster.processes()} {cluster.problems()}",
    )
    assert not set(before.values()) & set(cluster.processes().values())


def test_a_killed_supervisor_is_started_again_with_all_that_it_runs(cluster: TestCluster) -> None:
    components = set(cluster.processes().values())
    cluster.kill(supervisor.pid(cluster.layout))
    await_true(
        lambda: not components & isolation.processes(cluster.layout),
        otherwise=lambda: str(components),
    )
    assert any(problem.startswith("supervisord:") for problem in cluster.problems())
    cluster.heal()
    assert cluster.problems() == []


def test_a_lost_image_and_certificate_are_put_back_and_only_the_ones_reader_restarted(
    cluster: TestCluster,
) -> None:
    before = cluster.processes()
    cluster.ctr("rm", host.image_reference("tcp-wait"))
    assert cluster.problems() == ["images: tcp-wait is missing"]
    cluster.layout.certificate("scheduler").unlink()
    assert "certificates: scheduler: missing" in cluster.problems()
    cluster.heal()
    assert cluster.problems() == []
    assert pki.problems(cluster.layout) == []
    changed = {name for name, pid in cluster.processes().items() if before.get(name) != pid}
    assert changed == {"kube-scheduler"}


@pytest.mark.usefixtures("internet_tool")
def test_the_internet_is_opened_and_closed_in_place(
    cluster: TestCluster, request: pytest.FixtureRequest
) -> None:
    """With its pods left alone but for coredns; what it opens: test_internet.py."""
    before = cluster.processes()
    cluster.layout.internet = True
    request.addfinalizer(cluster.heal)
    request.addfinalizer(partial(setattr, cluster.layout, "internet", False))
    problems = cluster.problems()
    assert any(each.startswith("network:") for each in problems), problems
    cluster.heal()
    assert cluster.problems() == []
    assert cluster.processes().keys() - before.keys() == {"internet", "gateway"}
    corefile = cluster.get("configmap", "coredns", "--namespace=kube-system")["data"]
    assert "forward . 10.0.2.3" in corefile["Internet"]
    cluster.layout.internet = False
    cluster.heal()
    assert cluster.problems() == []
    assert cluster.processes() == before


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.long)])
def test_a_reboot_costs_no_object(cluster: TestCluster, times: int) -> None:
    """Though everything is killed while objects are written: each acknowledged one is there."""
    with _writing(cluster, prefix=f"written-{times}") as written:
        for _ in range(times):
            least = len(written) + 10
            await_true(lambda: len(written) >= least)  # noqa: B023
            lifecycle.kill(cluster.layout)
            run(host.path("ip"), "netns", "delete", cluster.layout.node)
            run("rm", "--recursive", "--force", str(cluster.layout.runtime))
            lifecycle.remove_groups(cluster.layout)
            problems = cluster.problems()
            assert any(each.startswith("network:") for each in problems), problems
            cluster.heal()
            assert cluster.problems() == []
    found = cluster.get("configmaps", "--selector=written")["items"]
    assert set(written) <= {each["metadata"]["name"] for each in found}


def test_a_reboot_costs_no_file_of_a_volume(cluster: TestCluster) -> None:
    """After the reboot of the test before."""
    assert cluster.get("configmap", "canary")["data"] == {"word": f"{CANARY}-configmap"}
    read = ("config", "get-clusters", "--kubeconfig=/data/config")
    assert "written" in _run_pod(cluster, "read", *read, claim="data")


@contextmanager
def _writing(cluster: TestCluster, prefix: str) -> Iterator[list[str]]:
    """Write objects one after the other; yield the names of those that were acknowledged."""
    client, acknowledged = kube.connect(pki.kubeconfig(cluster.layout, "admin")), list[str]()
    ended = threading.Event()

    def write() -> None:
        for number in count():
            name, path = f"{prefix}-{number}", "/api/v1/namespaces/default/configmaps"
            body = {"metadata": {"name": name, "labels": {"written": ""}}}
            request = kube.Request("POST", path, body=body)
            with suppress(*kube.UNREACHABLE):
                kube.ask(client, request, limit=2.0)
                acknowledged.append(name)
            if ended.wait(0.01):
                return

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            yield acknowledged
        finally:
            ended.set()
    writer.result()


def test_data_of_an_older_kubernetes_is_taken_over_or_put_back(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its record alone: docs/clusters.md has the takeover from a real 1.34.4."""

    def fail(_layout: Layout) -> list[Manifest]:
        raise TimeoutError("it does not come up")

    layout, before = cluster.layout, cluster.processes()
    layout.written_by.write_text("v1.34.4")
    with monkeypatch.context() as broken:
        broken.setattr(lifecycle, "addons", fail)
        with pytest.raises(RuntimeError, match="it does not come up") as failed:
            cluster.heal()
    assert not {"etcd", "kube-apiserver"} & cluster.processes().keys()
    run("sh", "-c", str(failed.value).splitlines()[-1], limit=60)
    assert not (layout.directory / "etcd-v1.34.4").exists()

    cluster.heal()
    assert cluster.problems() == []
    assert (layout.directory / "etcd-v1.34" / "member").is_dir()
    assert toolchain.tool("kube-apiserver").version == layout.written_by.read_text()
    assert cluster.get("configmap", "canary")["data"] == {"word": f"{CANARY}-configmap"}
    changed = {name for name, pid in cluster.processes().items() if before.get(name) != pid}
    assert {"etcd", "kube-apiserver"} <= changed
    assert "kubelet" not in changed, "pods go on"


def test_a_volumes_data_goes_with_its_claim(cluster: TestCluster) -> None:
    assert len(list(cluster.layout.volumes.iterdir())) == 1
    cluster.kubectl("delete", "pod", "--all", "--namespace", NAMESPACE)
    cluster.kubectl("delete", "pvc", "data", "--namespace", NAMESPACE)
    await_true(
        lambda: list(cluster.layout.volumes.iterdir()) == [] and not cluster.get("pv")["items"],
        otherwise=lambda: cluster.kubectl("get", "pv"),
    )


def test_delete_leaves_nothing(cluster: TestCluster, kernel_before: list[str]) -> None:
    layout = cluster.layout
    before = everyone()
    running = [process for process in before if process.pid in isolation.processes(layout)]
    namespaces = {process.namespace for process in running}
    # The kernel gives the number of a namespace that is gone to the next one.
    newest = max(process.started for process in before)
    assert len(running) > 10
    assert len(namespaces) == 2, "the node's and coredns's"

    lifecycle.remove(layout.directory)

    assert [process for process in running if process.runs_still()] == []
    left = [process for process in everyone() if process.namespace in namespaces]
    assert [process for process in left if process.started <= newest] == []
    # Path.rglob() would fail when another cluster's are removed meanwhile.
    cgroup_names = [Path(path).name for path, _, _ in os.walk("/sys/fs/cgroup")]
    assert [name for name in cgroup_names if name.startswith(layout.node)] == []
    named = Path("/run/netns")
    assert not (named / layout.node).exists()
    assert not (Path("/sys/class/net") / layout.host_interface).exists()
    mountinfo = Path("/proc/self/mountinfo").read_text()
    assert str(layout.directory) not in mountinfo
    assert layout.id not in mountinfo
    assert not layout.directory.exists()
    assert not layout.runtime.exists()
    for shared in isolation.directories(layout):
        assert list(shared.iterdir()) == [], shared
    assert kernel_parameters() == kernel_before
    lifecycle.remove(layout.directory)  # also of what is not there
