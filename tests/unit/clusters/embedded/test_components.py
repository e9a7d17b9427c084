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

from clusters.embedded import component_config, config_files, credentials, network, pki
from clusters.embedded.components import Component, components, flags
from clusters.embedded.host import Host
from clusters.embedded.layout import Layout
from tests.unit.clusters.embedded.fake_host import host as fake_host


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "cluster")
    pki.ensure(made)
    return made


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return fake_host(tmp_path / "tools")


def kubelet(layout: Layout) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(component_config.kubelet(layout))
    return found


def _named(layout: Layout, host: Host, name: str) -> Component:
    return next(found for found in components(layout, host) if found.name == name)


def test_flags_are_written_as_go_programs_read_them() -> None:
    assert flags(leader_elect=False, v=2) == ("--leader-elect=false", "--v=2")


@pytest.mark.parametrize("name", ["kube-controller-manager", "kube-scheduler"])
def test_controllers_answer_on_the_nodes_loopback_alone(
    layout: Layout, host: Host, name: str
) -> None:
    assert "--bind-address=127.0.0.1" in _named(layout, host, name).command


def test_the_api_server_listens_on_the_node_and_lets_nobody_in_anonymously(
    layout: Layout, host: Host
) -> None:
    command = _named(layout, host, "kube-apiserver").command
    assert f"--bind-address={layout.node_address}" in command
    assert {"--anonymous-auth=false", "--authorization-mode=Node,RBAC"} <= set(command)


def test_etcd_listens_on_loopback_alone_and_asks_for_certificates(
    layout: Layout, host: Host
) -> None:
    command = _named(layout, host, "etcd").command
    listens = [flag.split("=")[1] for flag in command if flag.startswith("--listen-")]
    assert listens == ["https://127.0.0.1:2379", "https://127.0.0.1:2380"]
    assert {"--client-cert-auth=true", "--peer-client-cert-auth=true"} <= set(command)


def test_the_kubelet_lets_nobody_in_anonymously(layout: Layout) -> None:
    config = kubelet(layout)
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["authorization"] == {"mode": "Webhook"}
    assert config["readOnlyPort"] == 0


def test_a_pod_cannot_take_all_of_the_machines_processes(layout: Layout) -> None:
    assert kubelet(layout)["podPidsLimit"] == 4096


def test_pods_are_under_the_clusters_own_control_group(layout: Layout) -> None:
    assert kubelet(layout)["cgroupRoot"] == f"/{layout.node}"


def test_kube_proxy_leaves_the_machines_limits_alone(layout: Layout) -> None:
    conntrack = yaml.safe_load(component_config.kube_proxy(layout))["conntrack"]
    assert {conntrack["maxPerCore"], conntrack["min"]} == {0}


def test_containerds_configuration_is_toml_and_keeps_to_the_clusters_directories(
    layout: Layout, host: Host
) -> None:
    config = tomllib.loads(component_config.containerd(layout, host))
    assert Path(config["root"]).is_relative_to(layout.directory)
    assert Path(config["temp"]).is_relative_to(layout.runtime)
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["netns_mounts_under_state_dir"] is True
    assert cri["sandbox_image"] == "slipway.local/pause:v1"


def test_pods_get_a_link_each_and_a_way_out(layout: Layout) -> None:
    link = json.loads(component_config.pod_network(layout))["plugins"][0]
    assert link["type"] == "ptp"
    assert link["ipam"]["routes"] == [{"dst": "0.0.0.0/0"}]


def test_components_know_their_kubeconfig_by_path_and_hold_no_key(
    layout: Layout, host: Host
) -> None:
    for component in components(layout, host):
        for file, text in component.files.items():
            assert "PRIVATE KEY" not in text, file
            assert "-data:" not in text, file


def test_the_kubeconfig_that_is_handed_out_needs_no_other_file(layout: Layout) -> None:
    document = yaml.safe_load(credentials.kubeconfig(layout, "admin"))
    assert set(document["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert document["clusters"][0]["cluster"]["server"] == f"https://{layout.node_address}:6443"


def test_the_firewall_lets_the_hosts_own_packets_in_and_then_none(layout: Layout) -> None:
    rules = [line.strip() for line in network.firewall(layout).splitlines() if "iifname" in line]
    assert rules == [
        f'iifname "uplink" ip saddr {layout.host_address} accept',
        'iifname "uplink" counter drop',
    ]


def test_every_component_is_restarted_and_dies_with_its_supervisor(
    layout: Layout, host: Host
) -> None:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(config_files.supervisord(layout, host, components(layout, host)))
    programs = [parsed[name] for name in parsed.sections() if name.startswith("program:")]
    assert len(programs) == len(components(layout, host))
    for program in programs:
        assert program["autorestart"] == "true"
        assert shlex.split(program["command"])[1:3] == ["--pdeathsig", "KILL"]
        assert int(program["stdout_logfile_backups"]) == 1


def test_what_needs_no_api_server_starts_by_itself(layout: Layout, host: Host) -> None:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(config_files.supervisord(layout, host, components(layout, host)))
    programs = {name: parsed[name] for name in parsed.sections() if name.startswith("program:")}
    by_itself = {name for name, program in programs.items() if program["autostart"] == "true"}
    assert by_itself == {"program:etcd", "program:kube-apiserver", "program:containerd"}


def test_supervisord_gets_a_command_back_as_it_was_meant(layout: Layout, host: Host) -> None:
    command = ("/bin/odd name", "--format=%d", "it's")
    (layout.directory / "odd name").touch()
    odd = Component("odd", (str(layout.directory / "odd name"), *command[1:]))
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(config_files.supervisord(layout, host, [odd]))
    given = shlex.split(parsed["program:odd"]["command"].replace("%%", "%"))
    assert tuple(given[-2:]) == command[1:]


def test_a_changed_credential_changes_its_readers_section_and_no_others(
    layout: Layout, host: Host
) -> None:
    def sections() -> dict[str, str]:
        return {made.name: config_files.fingerprint(made) for made in components(layout, host)}

    before = sections()
    layout.certificate("scheduler").write_text("renewed")
    after = sections()
    assert {name for name in after if after[name] != before[name]} == {"kube-scheduler"}


def test_a_rebuilt_program_changes_its_section(layout: Layout, host: Host) -> None:
    component = _named(layout, host, "etcd")
    before = config_files.fingerprint(component)
    Path(component.command[0]).write_text("another build")
    assert config_files.fingerprint(component) != before


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("clusters.embedded.layout.RUNTIME_ROOT", tmp_path / "run")


@pytest.mark.usefixtures("elsewhere")
def test_what_was_written_is_found_unchanged_and_private(layout: Layout, host: Host) -> None:
    config_files.write(layout, host, components(layout, host))
    assert config_files.problem(layout, host, components(layout, host)) is None
    written = [path for path in layout.config.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


@pytest.mark.usefixtures("elsewhere")
def test_a_changed_or_missing_file_is_named(layout: Layout, host: Host) -> None:
    config_files.write(layout, host, components(layout, host))
    (layout.config / "kubelet.yaml").write_text("maxPods: 1")
    (layout.config / "kube-proxy.yaml").unlink()
    found = config_files.problem(layout, host, components(layout, host))
    assert found is not None
    assert "kubelet.yaml" in found
    assert "kube-proxy.yaml" in found
    assert "containerd.toml" not in found
