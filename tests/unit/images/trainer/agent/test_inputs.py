"""The artifacts that a job takes from others are fetched and proven to be what they were."""

import json
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import fsspec
import pytest

from slipway_trainer.agent import artifacts, inputs
from slipway_trainer.agent.inputs import Input, NotFetchedError
from tests.unit.images.trainer.container import Container, Ended, ended
from tests.unit.images.trainer.store import store

_MODEL = b"weights" * 1000


@pytest.fixture
def wanted(tmp_path: Path) -> Input:
    """A model that another job left on a volume."""
    model = tmp_path / "results/run-1/model.pt"
    model.parent.mkdir(parents=True)
    model.write_bytes(_MODEL)
    return Input(
        name="model",
        job="train",
        artifact="model.pt",
        path=str(tmp_path / "work/inputs/model/model.pt"),
        url=f"file://{model}",
        sha256=sha256(_MODEL).hexdigest(),
    )


def failure(wanted: Input, **limits: float) -> str:
    with pytest.raises(NotFetchedError) as raised:
        inputs.fetch_input(wanted, **limits)
    assert not Path(wanted.path).exists()
    return str(raised.value)


def test_it_is_where_the_job_looks_for_it(wanted: Input, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_CHUNK_BYTES", 100)  # Many reads are one file.
    Path(wanted.path).parent.mkdir(parents=True)
    Path(wanted.path).write_bytes(b"changed by the program")
    assert inputs.fetch_input(wanted) == len(_MODEL)
    assert Path(wanted.path).read_bytes() == _MODEL
    assert [each.name for each in Path(wanted.path).parent.iterdir()] == ["model.pt"]


def test_it_may_be_in_any_store_or_on_a_volume_mounted_elsewhere(
    wanted: Input, tmp_path: Path
) -> None:
    url = "memory://results/run-1/model.pt"
    fsspec.filesystem("memory").pipe_file(url, _MODEL)
    elsewhere = "file:///there/../there/run-1/model.pt"
    mounted = ("/there", str(tmp_path / "results"))
    for each in (replace(wanted, url=url), replace(wanted, url=elsewhere, mounted=mounted)):
        inputs.fetch_input(each)
        assert Path(wanted.path).read_bytes() == _MODEL
        Path(wanted.path).unlink()


def test_a_file_that_was_written_over_is_refused(wanted: Input) -> None:
    Path(wanted.url.removeprefix("file://")).write_bytes(b"another run's")
    said = failure(wanted)
    assert said.startswith("input model: artifact model.pt from job train was changed")
    other = sha256(b"another run's").hexdigest()
    assert all(each in said for each in (wanted.url, wanted.sha256, other, "run train again"))


def test_a_file_that_is_gone_is_named_with_what_to_do(wanted: Input) -> None:
    Path(wanted.url.removeprefix("file://")).unlink()
    what = "input model: artifact model.pt from job train is no longer at"
    assert failure(wanted) == f"{what} {wanted.url}. Run train again to recreate it"


def test_a_failed_fetch_includes_the_error_of_the_store(wanted: Input) -> None:
    said = failure(replace(wanted, url="nowhere://results/model.pt"))
    assert "could not be fetched from nowhere://results/model.pt: ValueError: " in said
    assert "its `env`" in said


def test_a_store_that_says_nothing_is_given_up(wanted: Input) -> None:
    url, begun = store("silent", open=lambda *_: time.sleep(30)), time.monotonic()
    said = failure(replace(wanted, url=f"{url}/model.pt"), stall_seconds=0.2)
    assert "TimeoutError: opening it did not finish within" in said
    assert time.monotonic() - begun < 5


def run(container: Container, *wanted: Input, code: int = 0) -> Ended:
    """Run the module as a container does."""
    declared = [json.dumps(vars(each)) for each in wanted]
    return ended(container.start("-m", "slipway_trainer.inputs", *declared), code)


def test_a_container_fetches_all_inputs_and_logs_each(wanted: Input, tmp_path: Path) -> None:
    second = replace(wanted, name="again", path=str(tmp_path / "work/inputs/again/model.pt"))
    out, err = run(Container(tmp_path), wanted, second)
    assert err == ""
    assert Path(second.path).read_bytes() == Path(wanted.path).read_bytes() == _MODEL
    first, _ = out.splitlines()
    assert first.startswith(f"{wanted}: {len(_MODEL)} bytes from {wanted.url} in ")
    assert first.endswith(f"sha256 {wanted.sha256}")


def test_a_failing_container_leaves_why_as_its_message(wanted: Input, tmp_path: Path) -> None:
    container = Container(tmp_path)
    _, err = run(container, replace(wanted, sha256="0" * 64), code=1)
    assert container.message == {"error": err.strip()}
    assert "Traceback" not in err
