"""What the READMEs in examples/ show is what there is."""

import difflib
import json
import re
from pathlib import Path

import pytest
import yaml

from core.paths import CHECKOUT
from infra.settings import parse
from jobs.config import declare
from jobs.model.job import TrainingJob
from tests.unit.docs.test_jobs import examples


def _block(language: str, example: str) -> str:
    """Return the one block in this language of an example's README."""
    text = Path(CHECKOUT, "examples", example, "README.md").read_text()
    [block] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(block)


def test_the_difference_that_the_readme_shows_is_the_whole_one_and_small() -> None:
    pair = ("plain.py", "tracked_elastic.py")
    texts = (Path(CHECKOUT, "examples/tracked", name).read_text() for name in pair)
    plain, elastic = (text.splitlines(keepends=True) for text in texts)
    difference = list(difflib.unified_diff(plain, elastic, *pair, n=1))
    assert _block("diff", "tracked") == "".join(difference), "write it into the README anew"
    assert len([line for line in difference[2:] if line.startswith("+")]) <= 70


@pytest.mark.parametrize("name", ["tracked", "lightning", "transformers"])
def test_the_jobs_that_a_readme_declares_are_valid_and_judge_what_their_scripts_log(
    name: str,
) -> None:
    declared = yaml.safe_load(_block("yaml", name))["config"]
    for each, fields in declared["slipway:jobs"].items():
        job = declare(each, fields, f"slipway:jobs.{each}")
        assert isinstance(job, TrainingJob), job
        script = Path(CHECKOUT, fields["script"]).read_text()
        if name != "tracked":
            assert job.requirements == f"examples/{name}/requirements.txt"
            assert f"from slipway.{name} import" in script
            assert [key for key in job.require if key.removeprefix("eval_") not in script] == []


def test_train_then_evaluate_is_a_whole_stack_and_the_one_of_the_documentation() -> None:
    config = yaml.safe_load(_block("yaml", "evaluate"))["config"]
    settings = parse({key: json.dumps(value) for key, value in config.items()}, "dev")
    assert [job.name for job in settings.jobs] == ["mnist-gloo", "evaluate"]
    assert settings.jobs[1].inputs["model"].artifact == "mnist_cnn.pt"
    assert config["slipway:jobs"] in examples()
