"""The embedded cluster's programs: their configuration, and what restarts them."""

import configparser
import shlex
import stat
import tomllib
from pathlib import Path

import pytest
import yaml

from clusters.embedded import components as node
from clusters.embedded import supervisor
from clusters.embedded.components import Component, components
from clusters.embedded.layout import Layout

pytestmark = pytest.mark.usefixtures("tools")


def _named(layout: Layout, name: str) -> Component:
    return next(found for found in components(layout) if found.name == name)


def test_a_program_is_given_keys_by_their_paths_alone_and_these_are_what_restarts_it(
    layout: Layout,
) -> None:
    for component in components(layout):
        given = " ".join([*component.command, *component.files.values()])
        named = {path for path in layout.pki.iterdir() if str(path) in given}
        assert named == {path for path in component.reads if path.parent == layout.pki}
        # They are given by their paths: no key, and no kubeconfig's data.
        assert "PRIVATE KEY" not in given
        assert "-data:" not in given


def test_what_a_running_cluster_does_not_show_is_closed_and_bounded(layout: Layout) -> None:
    assert {"--client-cert-auth=true", "--peer-client-cert-auth=true"} <= set(
        _named(layout, "etcd").command
    )
    files = _named(layout, "kubelet").files
    kubelet = yaml.safe_load(next(text for file, text in files.items() if "kubelet" in file.name))
    assert kubelet["readOnlyPort"] == 0
    # A pod cannot take all of the machine's processes, and is under the cluster's control group.
    assert kubelet["podPidsLimit"] == 4096
    assert kubelet["cgroupRoot"] == f"/{layout.node}"
    # Images are loaded once: none is removed, neither from time to time nor on a nearly full disk.
    assert kubelet["imageGCHighThresholdPercent"] == 100
    assert kubelet["imageMinimumGCAge"] == "87600h"


def test_a_directory_may_be_called_as_the_formats_write_other_things(tmp_path: Path) -> None:
    layout = Layout(tmp_path / 'we#ird: "é" \\ $node')
    files = {file.name: text for each in components(layout) for file, text in each.files.items()}
    assert tomllib.loads(files["containerd.toml"])["root"] == f"{layout.directory}/containerd"
    certificate = str(layout.certificate("kubelet"))
    assert yaml.safe_load(files["kubelet.yaml"])["tlsCertFile"] == certificate


def test_supervisord_gets_a_command_back_as_it_was_meant(layout: Layout) -> None:
    command = ("/bin/odd name", "--format=%d", "it's")
    (layout.directory / "odd name").touch()
    odd = Component("odd", (str(layout.directory / "odd name"), *command[1:]))
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(node.supervisord(layout, [odd]))
    given = shlex.split(parsed["program:odd"]["command"].replace("%%", "%"))
    assert tuple(given[-2:]) == command[1:]
    assert parsed["program:odd"]["stdout_logfile_backups"] == "1"


def test_a_changed_credential_or_program_changes_its_own_section_alone(layout: Layout) -> None:
    def sections() -> dict[str, str]:
        return {made.name: node.fingerprint(made) for made in components(layout)}

    before = sections()
    layout.certificate("scheduler").write_text("renewed")
    Path(_named(layout, "etcd").command[0]).write_text("another build")
    after = sections()
    assert {name for name in after if after[name] != before[name]} == {"kube-scheduler", "etcd"}


def test_a_component_that_pauses_after_failures_is_started_at_once(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = {"etcd": "RUNNING", "kubelet": "BACKOFF", "kube-proxy": "STARTING", "coredns": "FATAL"}
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(supervisor, "states", lambda _: states)
    monkeypatch.setattr(supervisor, "_ask", lambda _, *call: asked.append(call[:2]))
    supervisor.run(layout, [*states])
    both = ("stopProcess", "startProcess")
    assert asked == [(each, name) for name in ("kubelet", "coredns") for each in both]


def test_what_was_written_is_private_and_a_changed_or_missing_file_is_named(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "runtime", tmp_path / "run")
    node.write(layout)
    assert node.problem(layout) is None
    written = [path for path in layout.config.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    (layout.config / "kubelet.yaml").write_text("maxPods: 1")
    (layout.config / "kube-proxy.yaml").unlink()
    found = str(node.problem(layout))
    names = ("kubelet.yaml", "kube-proxy.yaml", "containerd.toml")
    assert [name for name in names if name in found] == ["kubelet.yaml", "kube-proxy.yaml"]
