"""Charts and manifests in people's own programs, by the provider that set-up builds."""

from pathlib import Path

from tests.engine.cli_stack import Stack
from tests.engine.pytorchjob_stack import Jobs

_TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "{{ .Values.image }}"}]}
"""
_PROGRAM = """\
import os

import pulumi
from pulumi_kubernetes import Provider
from pulumi_kubernetes.helm.v4 import Chart, PostRendererArgs, RepositoryOptsArgs
from pulumi_kubernetes.yaml.v2 import ConfigGroup

provider = Provider("there", kubeconfig=os.environ["TEST_KUBECONFIG"])
options = pulumi.ResourceOptions(provider=provider)
Chart(
    "chart",
    chart="./chart",
    values={"image": pulumi.Output.secret("busybox")},
    repository_opts=RepositoryOptsArgs(username="me", password=pulumi.Output.secret("hidden")),
    post_renderer=PostRendererArgs(command="sed", args=["s/name: web/name: renamed/"]),
    opts=options,
)
settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
ConfigGroup("group", objs=[settings], opts=options)
"""


def test_charts_and_manifests_become_objects_of_their_kinds(
    tmp_path: Path, root: Path, jobs: Jobs
) -> None:
    """A chart's values and post-renderer are used, and its credentials are accepted."""
    templates = tmp_path / "chart/templates"
    templates.mkdir(parents=True)
    (tmp_path / "chart/Chart.yaml").write_text("{apiVersion: v2, name: chart, version: 1.0.0}\n")
    (templates / "web.yaml").write_text(_TEMPLATE)
    stack = Stack(tmp_path, root, jobs.kubeconfig.read_text(), _PROGRAM)
    inputs = {step["urn"].rpartition("$")[2]: step["new"]["inputs"]
              for step in stack.preview().steps}  # fmt: skip
    web = inputs["kubernetes:apps/v1:Deployment::chart:default/renamed"]
    (container,) = web["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "busybox"
    assert "kubernetes:core/v1:ConfigMap::group:default/settings" in inputs
