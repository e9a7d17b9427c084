"""`slipway init`: three answers become a stack, and nothing is overwritten."""

import sys
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
import yaml

from clusters.kinds import CLUSTERS
from infra.settings import StackSettings
from scripts.cli.config import load_settings
from scripts.cli.init import init
from scripts.cli.terminal import CommandError
from tests.unit.scripts.cli.kept_state import keep_state

pytestmark = pytest.mark.usefixtures("folder")


def made(stack: str = "dev", *, build: bool = False, **answers: object) -> StackSettings:
    """Return the settings that the answers become, as the program reads them."""
    given = {"cluster": None, "script": None, "ranks": None, **answers}
    assert init(stack, **given, build=build) == 0  # type: ignore[arg-type]
    settings = load_settings(stack)
    assert settings is not None, "the program would refuse it"
    return settings


def test_an_empty_folder_gets_a_stack(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = made()
    assert settings.cluster.kind == "embedded"
    [job] = settings.jobs
    assert (job.name, job.script, job.workers) == ("train", "train.py", 1)
    assert capsys.readouterr().err == "Wrote train.py, Pulumi.dev.yaml.\nNext: slipway up\n"
    assert {each.name for each in folder.iterdir()} == {"train.py", "Pulumi.dev.yaml"}


@pytest.mark.parametrize("cluster", sorted(CLUSTERS.keys() - {"kubeconfig"}))
def test_a_stack_on_any_kind_of_cluster_is_one_that_the_program_takes(cluster: str) -> None:
    assert made("other", cluster=cluster).cluster.kind == cluster


def test_what_only_the_user_knows_of_a_cluster_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="the program would refuse it"):
        made(cluster="kubeconfig")
    said = capsys.readouterr().err
    assert "slipway:cluster.images: is missing: nodes need to pull images" in said
    assert "Next:" not in said


def test_a_program_that_is_there_stays_as_it_is(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "My Net.py").write_text("print('mine')")
    settings = made(script="src/My Net.py", ranks=1)
    assert [(job.name, job.workers) for job in settings.jobs] == [("my-net", 0)]
    assert (folder / "src" / "My Net.py").read_text() == "print('mine')"
    named_like_a_catalogue_job = made("other", script="mnist-gloo.py").jobs
    assert [job.name for job in named_like_a_catalogue_job] == ["my-mnist-gloo"]
    [long] = made("third", script="finetune_llama_for_sequence_classification_with_lora.py").jobs
    assert long.name == "finetune-llama-for-sequence-classifi"


def test_an_image_of_its_own_starts_with_a_dockerfile_that_runs_the_program(folder: Path) -> None:
    settings = made(build=True, script="net/main.py")
    assert settings.jobs[0].build is not None
    assert settings.jobs[0].build.context == "net"
    dockerfile = (folder / "net" / "Dockerfile").read_text()
    assert "COPY main.py" in dockerfile
    assert dockerfile.rstrip().endswith('/opt/train/main.py"]')
    assert (folder / "net" / "main.py").exists()


def test_all_answers_that_are_not_allowed_are_named_and_nothing_is_written(folder: Path) -> None:
    with pytest.raises(CommandError) as refused:
        made(cluster="embeded", script="train.py", build=True)
    first, cluster, script = str(refused.value).replace('"', "'").splitlines()
    assert first == "Nothing was written:"
    assert cluster.startswith("--cluster: 'embeded' is not a cluster kind; did you mean")
    assert script.startswith("--script: 'train.py' is not allowed; it must be a file")
    with pytest.raises(CommandError, match=r"--script: .train\.sh. is not allowed; it must be a"):
        made(script="train.sh")
    assert [*folder.iterdir()] == []


def test_a_stack_that_exists_or_has_a_file_keeps_it(folder: Path) -> None:
    """With another file the next `up` of the former would delete what it has."""
    keep_state("kept")
    with pytest.raises(CommandError, match=r"the stack kept still exists.*\n.*refresh"):
        made("kept")
    with pytest.raises(CommandError, match="not a valid stack name"):
        made("../dev")
    assert [*folder.parent.rglob("*.yaml")] == []
    (folder / "Pulumi.dev.yaml").write_text("config: {}\n")
    with pytest.raises(CommandError, match=r"Pulumi\.dev\.yaml already exists.*--stack NAME"):
        made()
    assert (folder / "Pulumi.dev.yaml").read_text() == "config: {}\n"
    assert not (folder / "train.py").exists()


def test_it_asks_three_questions_at_most(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its default, which is the answer here."""
    asked: list[tuple[str, object]] = []

    def prompt(question: str, default: object, **_options: object) -> object:
        asked.append((question, default))
        return default

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(sys, "stdin", Mock(isatty=lambda: True))
    made()
    assert asked == [("Cluster", "embedded"), ("Script", "train.py"), ("Ranks", 2)]
    asked.clear()
    made("kind", cluster="kind", ranks=3)
    assert asked == [("Script", "train.py")]
    document = yaml.safe_load((folder / "Pulumi.kind.yaml").read_text())
    assert document["config"]["slipway:jobs"] == {"train": {"script": "train.py", "workers": 2}}
