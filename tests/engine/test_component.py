"""`slipway:index:Training` in other people's programs, in Python and YAML, by the real engine."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.embedded import pki
from core.paths import CHECKOUT
from core.process import run
from infra.provider.provider import SCHEMA
from tests import go_programs
from tests.docs import package
from tests.engine import checkpoint
from tests.engine.awaiting import COMMAND_SECONDS
from tests.engine.cli_stack import MAIN, Outcome, Stack
from tests.engine.embedded_cluster import TestCluster
from tests.engine.kubeconfig_stack import JOB, images
from tests.engine.stack import LiveStack

_PLUGIN = CHECKOUT / "infra/provider/pulumi-resource-slipway"
_YAML = Path(__file__).resolve().parent / "pulumi_yaml"
_MODULE = "github.com/pulumi/pulumi-yaml"
_SETTINGS = {
    "cluster": {"kind": "embedded"},
    "jobs": {
        "mine": {
            "script": "train.py",
            "workers": 2,
            "cpu": 0.2,
            "args": ["--epochs", 2],
            "require": {"val_loss": {"max": 0.35}},
            "env": {"GREETING": "hello", "TOKEN": {"config": "token"}},
        }
    },
}
_THEIRS = f"""\
import pulumi
import pulumi_slipway as slipway

training = slipway.Training("training", secrets={{"token": "hidden"}}, **{_SETTINGS})
pulumi.export("loss", training.jobs["mine"].metrics["val_loss"])
pulumi.export("kubeconfig", training.kubeconfig)
"""


class Program(Stack):
    """A project of its own with a script, whose program is exchanged between previews."""

    def __init__(self, directory: Path, packages: Path) -> None:
        self.packages = packages
        super().__init__(directory, CHECKOUT, "", "")
        (directory / "train.py").write_text("print('hello')\n")

    def environment(self, **arguments: Any) -> dict[str, str]:
        """Return the environment of the CLI, in which Python finds the SDK."""
        paths = os.pathsep.join([str(self.packages), str(CHECKOUT)])
        own = {"PYTHONPATH": paths, "XDG_STATE_HOME": str(self.directory / "home")}
        found = super().environment(**arguments) | own
        del found["SLIPWAY_PROJECT"]  # by default it is the program's own folder
        return found

    def previewed(self, main: str, **variables: str) -> Outcome:
        """Preview a program."""
        (self.directory / "__main__.py").write_text(main)
        return self.attempt("preview", variables=variables)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the SDK, as pip installs it."""
    folder = tmp_path_factory.mktemp("packages")
    install = ("pip", "install", "--quiet", "--no-deps", f"--target={folder}", str(package.PYTHON))
    run(sys.executable, "-m", *install, limit=COMMAND_SECONDS)
    return folder


@pytest.fixture
def program(tmp_path: Path, packages: Path) -> Program:
    return Program(tmp_path, packages)


def run_of(preview: Outcome) -> dict[str, Any]:
    """Return the inputs of the one run in a preview, as the engine has them."""
    assert preview.code == 0, str(preview)
    [step] = [each for each in preview.steps if each["type"] == "slipway:jobs:PyTorchJob"]
    return dict(step["new"]["inputs"])


def of_this_repository(program: Program) -> dict[str, Any]:
    """Return the inputs of the run that this repository's program declares of the settings."""
    file = program.directory / "Pulumi.test.yaml"
    before = file.read_text()
    program.configure(**_SETTINGS)
    secret = program.pulumi("config", "set", "--secret", "slipway:token", "hidden")
    assert secret.code == 0, str(secret)
    found = run_of(program.previewed(MAIN, SLIPWAY_PROJECT=str(program.directory)))
    file.write_text(before)
    return found


def test_a_python_programs_run_is_the_one_of_this_repositorys_program(program: Program) -> None:
    preview = program.previewed(_THEIRS)
    assert run_of(preview) == of_this_repository(program)
    assert "hidden" not in preview.text


def test_what_is_wrong_is_reported_at_once_in_a_few_lines(program: Program) -> None:
    preview = program.previewed(_THEIRS.replace("embedded", "embeded").replace("cpu", "cpus"))
    assert preview.code != 0
    assert "jobs.mine.cpus: there is no such key" in preview.text
    assert 'cluster.kind: "embeded" is not a cluster kind; did you mean' in preview.text
    assert "Correct the inputs of slipway:index:Training training and run" in preview.text
    assert "infra/component.py" not in preview.text


def test_the_plugins_schema_is_the_one_of_the_sdk(program: Program) -> None:
    schema = program.pulumi("package", "get-schema", str(_PLUGIN))
    assert json.loads(schema.text) == {"config": {}, **json.loads(SCHEMA.read_text())}


@pytest.mark.long
def test_a_program_trains_on_a_cluster_that_it_knows_by_a_kubeconfigs_content(
    cluster: TestCluster, program: Program
) -> None:
    cluster.add_kubectl_image()
    main = f"""\
import os

import pulumi
import pulumi_slipway as slipway

content = pulumi.Output.secret(os.environ["TEST_KUBECONFIG"])
cluster = {{"kind": "kubeconfig", "kubeconfig": content, "images": {images()}}}
training = slipway.Training("training", cluster=cluster, jobs={{"say": {JOB}}})
pulumi.export("state", training.jobs["say"].state)
"""
    variables = {"TEST_KUBECONFIG": pki.kubeconfig(cluster.layout, "admin")}
    (program.directory / "__main__.py").write_text(main)
    try:
        program.run("up", variables=variables)
        assert program.output("state") == "Succeeded"
        assert "client-key-data" not in json.dumps(program.resources)
        assert program.run("up", variables=variables).changes == {}
    finally:
        program.destroy()


@pytest.mark.long
def test_the_sdk_is_what_pulumi_generates(tmp_path: Path) -> None:
    package.generate(tmp_path)
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        ours = package.PYTHON / file.relative_to(tmp_path)
        assert ours.read_bytes() == file.read_bytes(), "run python -m tests.docs.package"


@pytest.mark.long
def test_a_yaml_programs_run_is_the_one_of_this_repositorys_program(program: Program) -> None:
    ours = of_this_repository(program)
    host = "pulumi-language-yaml"
    built = go_programs.built(host, _YAML, _MODULE, f"{_MODULE}/cmd/{host}")
    programs = program.directory / "bin"
    programs.mkdir()
    (programs / host).symlink_to(built)
    file = program.directory / "Pulumi.yaml"
    properties = {**_SETTINGS, "secrets": {"token": {"fn::secret": "hidden"}}}
    resources = {"training": {"type": "slipway:Training", "properties": properties}}
    outputs = {"loss": "${training.jobs.mine.metrics.val_loss}"}
    theirs = {"runtime": "yaml", "resources": resources, "outputs": outputs}
    file.write_text(json.dumps({**json.loads(file.read_text()), **theirs}))
    path = os.pathsep.join([str(programs), program.environment()["PATH"]])
    added = program.pulumi(
        "package", "add", str(_PLUGIN), environment=program.environment() | {"PATH": path}
    )
    assert added.code == 0, str(added)
    preview = program.previewed("", PATH=path)
    assert run_of(preview) == ours
    assert "hidden" not in preview.text


@pytest.mark.long
def test_the_automation_api_brings_a_stack_up_reads_a_result_and_takes_it_down(
    spare_stack: LiveStack,
) -> None:
    page = (CHECKOUT / "docs/library.md").read_text()
    [commands] = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    spare_stack.run("make tools")
    told = spare_stack.run(f"set -e\n{commands}").output
    assert re.search(r"^\{'mnist-gloo': \{'accuracy': 0\.9", told, re.MULTILINE), told
    assert checkpoint.resources(spare_stack.backend, "dev") == []
