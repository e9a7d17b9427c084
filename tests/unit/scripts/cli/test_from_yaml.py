"""`make import` prints YAML that can be pasted, and sentences about all that can't be read."""

from pathlib import Path

import pytest
import yaml

from scripts.cli.from_yaml import as_yaml, documents, show
from scripts.cli.terminal import CommandError
from tests.unit.jobs.test_imported import GLOO_DEMO, TRAIN_JOB


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


def test_a_files_jobs_are_one_piece_of_yaml(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "beside"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [TRAIN_JOB, service, TRAIN_JOB]}
    file.write_text(yaml.safe_dump_all([GLOO_DEMO, None, listed]))
    assert show("dev", str(file)) == 0
    printed = capsys.readouterr()
    jobs = yaml.safe_load(printed.out)["config"]["slipway:jobs"]
    assert [*jobs] == ["pytorch-dist-mnist-gloo-demo", "second-version"]
    assert "Service beside was not imported" in printed.err
    assert "another job also has the name second-version" in printed.err
    assert "make preview STACK=dev" in printed.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not contain a job"),
        ("- 1\n- 2", "does not contain a job"),
        ("a: &a [*a]", "can't be read"),
        ("2026-01-01: x", "can't be read"),
        ("metadata:\n  name: {{ .Values.name }}", "helm template"),
        ("\x00", "can't be read"),
        (None, "can't be read"),
    ],
)
def test_a_file_without_a_job_is_a_sentence(file: Path, text: str | None, reason: str) -> None:
    if text is not None:
        file.write_text(text)
    with pytest.raises(CommandError, match=reason):
        show("dev", str(file))


@pytest.mark.parametrize("text", ["1", "00123", "123e45", "1_0", "0x1F", "1.10", "y", "~", ".inf"])
def test_what_another_yaml_reads_as_a_number_stands_in_quotes(text: str) -> None:
    assert as_yaml({"a": {"b": [text]}}) == f"a:\n  b: ['{text}']\n"
    assert as_yaml({"a": [3, "8Gi", "--lr", True]}) == "a: [3, 8Gi, --lr, true]\n"


def test_dates_stay_text(file: Path) -> None:
    file.write_text("kind: Job\nmetadata: {name: 2026-01-01}")
    [document] = documents(str(file))
    assert document["metadata"] == {"name": "2026-01-01"}
    assert as_yaml({"a": [document["metadata"]["name"]]}) == "a: ['2026-01-01']\n"
