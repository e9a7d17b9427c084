"""What the embedded cluster's components are told."""

import configparser
import json
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.embedded import components as node
from clusters.embedded import network, pki
from clusters.embedded.components import Component, components
from clusters.embedded.layout import Layout

pytestmark = pytest.mark.usefixtures("tools")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "cluster")
    pki.ensure(made)
    return made


@pytest.fixture
def written(layout: Layout) -> dict[str, str]:
    """Each configuration file's content by its name."""
    made = components(layout)
    return {file.name: text for each in made for file, text in each.files.items()}


@pytest.fixture
def kubelet(written: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(written["kubelet.yaml"])
    return found


def _named(layout: Layout, name: str) -> Component:
    return next(found for found in components(layout) if found.name == name)


def test_what_a_program_is_given_of_the_clusters_keys_is_what_restarts_it(layout: Layout) -> None:
    for component in components(layout):
        given = " ".join([*component.command, *component.files.values()])
        named = {path for path in layout.pki.iterdir() if str(path) in given}
        assert named == {path for path in component.reads if path.parent == layout.pki}


LOOPBACK = {"--bind-address=127.0.0.1", "--leader-elect=false"}


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("kube-controller-manager", LOOPBACK),
        ("kube-scheduler", LOOPBACK),
        ("kube-apiserver", {"--bind-address={node}", "--anonymous-auth=false"}),
        ("kube-apiserver", {"--authorization-mode=Node,RBAC"}),
        ("etcd", {"--client-cert-auth=true", "--peer-client-cert-auth=true"}),
    ],
)
def test_components_listen_on_the_node_alone_and_refuse_whom_they_do_not_know(
    layout: Layout, name: str, flags: set[str]
) -> None:
    expected = {each.format(node=layout.node_address) for each in flags}
    assert expected <= set(_named(layout, name).command)


def test_etcd_listens_on_loopback_alone(layout: Layout) -> None:
    command = _named(layout, "etcd").command
    listens = [flag.split("=")[1] for flag in command if flag.startswith("--listen-")]
    assert listens == ["https://127.0.0.1:2379", "https://127.0.0.1:2380"]


def test_the_kubelet_refuses_anonymous_requests_and_bounds_pods(
    layout: Layout, kubelet: dict[str, Any]
) -> None:
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert kubelet["readOnlyPort"] == 0
    # A pod cannot take all of the machine's processes, and is under the cluster's control group.
    assert kubelet["podPidsLimit"] == 4096
    assert kubelet["cgroupRoot"] == f"/{layout.node}"


def test_kube_proxy_leaves_the_machines_limits_alone(written: dict[str, str]) -> None:
    conntrack = yaml.safe_load(written["kube-proxy.yaml"])["conntrack"]
    assert {conntrack["maxPerCore"], conntrack["min"]} == {0}


def test_containerds_toml_keeps_to_its_directories(layout: Layout, written: dict[str, str]) -> None:
    config = tomllib.loads(written["containerd.toml"])
    assert Path(config["root"]).is_relative_to(layout.directory)
    assert Path(config["temp"]).is_relative_to(layout.runtime)
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["netns_mounts_under_state_dir"] is True
    assert cri["sandbox_image"] == "slipway.local/pause:v1"


def test_a_directory_may_be_called_as_the_formats_write_other_things(tmp_path: Path) -> None:
    layout = Layout(tmp_path / 'we#ird: "é" \\ $node')
    files = {file.name: text for each in components(layout) for file, text in each.files.items()}
    assert tomllib.loads(files["containerd.toml"])["root"] == f"{layout.directory}/containerd"
    certificate = str(layout.certificate("kubelet"))
    assert yaml.safe_load(files["kubelet.yaml"])["tlsCertFile"] == certificate


def test_pods_get_a_link_each_and_a_way_out(written: dict[str, str]) -> None:
    link = json.loads(written["10-slipway.conflist"])["plugins"][0]
    assert link["type"] == "ptp"
    assert link["ipam"]["routes"] == [{"dst": "0.0.0.0/0"}]


def test_components_know_their_kubeconfig_by_path_and_hold_no_key(layout: Layout) -> None:
    for component in components(layout):
        for file, text in component.files.items():
            assert "PRIVATE KEY" not in text, file
            assert "-data:" not in text, file


def test_the_kubeconfig_that_is_handed_out_needs_no_other_file(layout: Layout) -> None:
    document = yaml.safe_load(pki.kubeconfig(layout, "admin"))
    assert set(document["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert document["clusters"][0]["cluster"]["server"] == f"https://{layout.node_address}:6443"


def test_the_firewall_lets_the_hosts_own_packets_in_and_then_none(layout: Layout) -> None:
    lines = network.firewall(layout).partition(" comment")[0].splitlines()
    rules = [line.strip() for line in lines if "iifname" in line]
    assert rules == [
        f'iifname "uplink" ip saddr {layout.host_address} accept',
        'iifname "uplink" counter drop',
    ]


def test_every_component_is_restarted_and_dies_with_its_supervisor(layout: Layout) -> None:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(node.supervisord(layout, components(layout)))
    programs = {name: parsed[name] for name in parsed.sections() if name.startswith("program:")}
    assert len(programs) == len(components(layout))
    for program in programs.values():
        assert program["autorestart"] == "true"
        assert shlex.split(program["command"])[1:3] == ["--pdeathsig", "KILL"]
        assert int(program["stdout_logfile_backups"]) == 1
    # What needs no API server starts by itself.
    by_itself = {name for name, program in programs.items() if program["autostart"] == "true"}
    assert by_itself == {"program:etcd", "program:kube-apiserver", "program:containerd"}


def test_supervisord_gets_a_command_back_as_it_was_meant(layout: Layout) -> None:
    command = ("/bin/odd name", "--format=%d", "it's")
    (layout.directory / "odd name").touch()
    odd = Component("odd", (str(layout.directory / "odd name"), *command[1:]))
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(node.supervisord(layout, [odd]))
    given = shlex.split(parsed["program:odd"]["command"].replace("%%", "%"))
    assert tuple(given[-2:]) == command[1:]


def test_a_changed_credential_or_program_changes_its_own_section_alone(layout: Layout) -> None:
    def sections() -> dict[str, str]:
        return {made.name: node.fingerprint(made) for made in components(layout)}

    before = sections()
    layout.certificate("scheduler").write_text("renewed")
    Path(_named(layout, "etcd").command[0]).write_text("another build")
    after = sections()
    assert {name for name in after if after[name] != before[name]} == {"kube-scheduler", "etcd"}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("clusters.embedded.layout.RUNTIME_ROOT", tmp_path / "run")


@pytest.mark.usefixtures("elsewhere")
def test_what_was_written_is_found_unchanged_and_private(layout: Layout) -> None:
    node.write(layout)
    assert node.problem(layout) is None
    written = [path for path in layout.config.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


@pytest.mark.usefixtures("elsewhere")
def test_a_changed_or_missing_file_is_named(layout: Layout) -> None:
    node.write(layout)
    (layout.config / "kubelet.yaml").write_text("maxPods: 1")
    (layout.config / "kube-proxy.yaml").unlink()
    found = node.problem(layout)
    assert found is not None
    assert "kubelet.yaml" in found
    assert "kube-proxy.yaml" in found
    assert "containerd.toml" not in found
