"""The pages on jobs describe every field that a job may have, and what they say is true."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic.alias_generators import to_camel

from clusters.nodes import Capacity
from jobs.config import KEYS, read
from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.parts import HYPERPARAMETERS, MODULES, Elastic
from jobs.model.program import DEFAULT_ENTRY
from jobs.model.submission import Submission
from jobs.rules.rule import Surroundings

_DOCS = Path(__file__).resolve().parents[3] / "docs"
_NAMES = ("jobs", "own-job", "start", "resources", "files", "data", "runs", "inside")
TEXT = "\n".join((_DOCS / f"{name}.md").read_text() for name in _NAMES)
_ROW = re.compile(r"^\| `(?P<field>\w+)` \| (?P<default>[^|]*) \|", re.MULTILINE)
_YAML = re.compile(
    r"(?:(?:makes|and), in (?P<where>[^:\n]+):\n\n)?```yaml\n(?P<body>.*?)```", re.DOTALL
)


def blocks() -> list[tuple[str | None, dict[str, Any]]]:
    """Return each YAML block: where it is to be found, None for an example, and what it says."""
    found = _YAML.finditer(TEXT)
    return [(each["where"], jobs_in(yaml.safe_load(each["body"]))) for each in found]


def jobs_in(document: dict[str, Any]) -> dict[str, Any]:
    """Return the jobs of a whole stack's file, and anything else as it is."""
    jobs: dict[str, Any] = document.get("config", {}).get("slipway:jobs", document)
    return jobs


def examples() -> list[dict[str, Any]]:
    return [body for where, body in blocks() if where is None]


def claims() -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Return each example with something that it makes: where that is, and what."""
    found, example = [], {}
    for where, body in blocks():
        if where is None:
            example = body
        else:
            found.append((example, where, body))
    return found


def rendered(example: dict[str, Any]) -> dict[str, Any]:
    """Return the PyTorchJob of the last job in an example: the one that it is about."""
    wanted = read(example, "slipway:jobs", Surroundings())
    assert wanted.problems == []
    job = wanted.jobs[-1]
    script = wanted.scripts.get(job.name)
    mounted = None if script is None else script.mounted
    return manifest(Submission(job=job, image=job.image or "trainer", script=mounted))


def places(job: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the parts of a PyTorchJob that are meant by `where`."""
    if where == "the PyTorchJob":
        return [job]
    specs = job["spec"]["pytorchReplicaSpecs"].items()
    pods = {role: each["template"]["spec"] for role, each in specs}
    if where == "every pod":
        return [*pods.values()]
    assert where in {"every container", "the Master's container", "the Worker's container"}
    named = [role for role in pods if role in where or where == "every container"]
    return [pods[role]["containers"][0] for role in named]


def holds(actual: Any, said: Any) -> bool:
    """Return whether all that is said is there: of lists of words exactly that."""
    if isinstance(said, dict):
        return isinstance(actual, dict) and all(
            key in actual and holds(actual[key], value) for key, value in said.items()
        )
    if isinstance(said, list) and any(isinstance(each, dict) for each in said):
        return all(any(holds(each, wish) for each in actual) for wish in said)
    return bool(actual == said)


@pytest.fixture
def told() -> dict[str, str]:
    rows = _ROW.finditer(TEXT.partition("## Known mistakes")[0])
    return {row["field"]: row["default"].strip().strip("`") for row in rows}


def test_every_field_is_documented_and_has_an_example(told: dict[str, str]) -> None:
    assert [*told] == [*KEYS]
    assert {field for example in examples() for job in example.values() for field in job} == {*KEYS}


def test_the_defaults_are_those_of_a_job(told: dict[str, str]) -> None:
    job = TrainingJob(name="any", script="own")
    for name in TrainingJob.__dataclass_fields__:
        field, value = to_camel(name), getattr(job, name)
        if field not in told or name in {"script", *HYPERPARAMETERS}:
            continue
        if value in (None, (), {}):
            special = {"script_entry": DEFAULT_ENTRY, "backoff_limit": str(job.max_restarts)}
            free = {"shared_memory", "min_accuracy"}
            assert name in free or told[field] == special.get(name, "none"), name
        else:
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            assert told[field] == shown, name


@pytest.mark.parametrize("name", [name for name in HYPERPARAMETERS if name != "goal"])
def test_the_defaults_are_those_of_the_catalogues_programs(name: str, told: dict[str, str]) -> None:
    mnist, cifar = (MODULES[each].defaults[name] for each in ("mnist", "cifar"))
    assert MODULES["mnist_elastic"].defaults[name] == mnist
    expected = str(mnist) if mnist == cifar else f"{mnist}; {cifar} for cifar"
    assert told[to_camel(name)] == expected


@pytest.mark.parametrize("example", examples(), ids=" ".join)
def test_an_example_fits_a_small_machine_unless_it_needs_gpus(example: dict[str, Any]) -> None:
    assert rendered(example)["kind"] == "PyTorchJob"
    # What a machine with 2 cores and 6 GB has left for jobs.
    small = Surroundings(0, Capacity(Decimal("1.9"), 5 * 2**30, 0, 1))
    found = read(example, "slipway:jobs", small)
    needs_gpus = any(job.backend == "nccl" for job in found.jobs)
    assert bool(found.problems) == needs_gpus, found.problems


def test_the_defaults_of_elastic_are_documented() -> None:
    elastic = Elastic()
    assert elastic.max_replicas is None
    assert [elastic.least(workers) for workers in (1, 2, 3, 4)] == [1, 2, 2, 3]
    told = "`minReplicas` (more than half of them), `maxReplicas` (`workers`), "
    assert f"{told}`maxRestarts` ({elastic.max_restarts})" in TEXT


@pytest.mark.parametrize(("example", "where", "said"), claims())
def test_an_example_renders_what_the_page_claims(
    example: dict[str, Any], where: str, said: dict[str, Any]
) -> None:
    """Of replica specs, it claims all that there are."""
    job = rendered(example)
    found = places(job, where)
    assert found
    for part in found:
        for key, value in said.items():
            assert holds(part[key], value), (key, part[key])
    if "pytorchReplicaSpecs" in said.get("spec", {}):
        roles = job["spec"]["pytorchReplicaSpecs"]
        assert roles.keys() == said["spec"]["pytorchReplicaSpecs"].keys()


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (body,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(body, {})  # noqa: S102  # the document's own
    assert "PyTorchJob" in capsys.readouterr().out


def test_the_variables_are_those_that_a_container_finds() -> None:
    container, *_ = places(rendered({"mnist-gloo": {}}), "every container")
    env = {each["name"] for each in container["env"]}
    (table,) = re.findall(r"\| variable \|.*?\n\n", TEXT, re.DOTALL)
    named = set(re.findall(r"`([A-Z_]+)`", table))
    by_operator = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    of_some = {"SLIPWAY_OUTPUTS", "SLIPWAY_OUTPUTS_EVERY", "SLIPWAY_KEPT", "SLIPWAY_SUCCEEDED"}
    assert named == env | by_operator | of_some | {"SLIPWAY_DATA_DIR", "USER"}
