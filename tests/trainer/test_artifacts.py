"""A program's files and checkpoints go to s3://, gs:// and abfs:// URLs, by the image's packages.

Azure's own emulator stands for abfs://.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import stores
from tests.trainer.conftest import Ended, Opened

# More than one part of an upload.
_MODEL = bytes(range(256)) * 2**16
_LEAVES = """
import os, pathlib, sys
outputs = pathlib.Path(os.environ["SLIPWAY_OUTPUT_DIR"])
(outputs / "logs").mkdir()
(outputs / "logs/0.txt").write_text("trained")
(outputs / "model.pt").write_bytes(bytes(range(256)) * 2**16)
for name in sys.argv[1:]: (outputs / name).write_text(name)
"""
_STEPS = """
import json, os, pathlib, sys
directory = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
found = sorted(path.name for path in directory.iterdir())
for path in directory.iterdir(): path.unlink()
(directory / f"step-{len(found) + len(''.join(found))}").write_text("state")
print(json.dumps({"event": "found", "names": found}), flush=True)
sys.exit(int(sys.argv[1]))
"""
_KEEPS = """
import io, json, pathlib, sys, tarfile
from slipway.events import Events
from slipway_trainer.training import report
from slipway_trainer.agent import artifacts, tar
place, outputs = f"{sys.argv[1]}/slipway/outputs/mine", pathlib.Path("/out/outputs")
outputs.mkdir()
(outputs / "model.pt").write_bytes(bytes(range(256)) * 2**16)
for run, last, is_success in (("run-1", None, 1), ("run-2", "run-1", 1), ("run-3", "run-2", 0)):
    artifacts.reach(place)
    artifacts.sync(outputs, f"{place}/{run}", Events(0))
    artifacts.prune(place, run, last, is_success=is_success)
sent = io.BytesIO()
tar.write(f"{place}/run-2", sent)
sent.seek(0)
print(json.dumps({
    "sent": tarfile.open(fileobj=sent).getnames(),
    "fetched": artifacts.copy(f"{place}/run-2/model.pt", pathlib.Path("/out/model.pt")),
}))
report.end(0)
"""
_READS = """
import hashlib, json, sys
from slipway_trainer.training import report
from slipway_trainer.agent.artifacts import store_of
store, root = store_of(sys.argv[1])
print(json.dumps({p: hashlib.sha256(store.cat_file(p)).hexdigest() for p in store.find(root)}))
report.end(0)
"""

_SHARDED = """
import os, pathlib, sys, torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
from slipway_trainer.training import report
dist.init_process_group("gloo")
rank, directory = dist.get_rank(), pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "step-1")
own = {f"part {rank}": torch.full((1000,), float(rank))}
if sys.argv[1] == "save":
    dcp.save(own, checkpoint_id=str(directory))
    dist.barrier()
    report.end(3)  # a thread of gloo's with a Python object can hang or abort the interpreter's end
files = {path.name for path in directory.iterdir()}
assert files == {".metadata", "__0_0.distcp", "__1_0.distcp"}, files
# As on a world in which the ranks have changed places.
other = {f"part {1 - rank}": torch.zeros(1000)}
dcp.load(other, checkpoint_id=str(directory))
assert other[f"part {1 - rank}"].eq(1 - rank).all()
dist.barrier()
report.end(0)
"""
_POD = """
SLIPWAY_CHECKPOINT_DIR=/out/$1-$RANK \
    exec python3 -m slipway_trainer.launch -- /out/sharded.py $1
"""


class Store:
    """A bucket, as programs in the image see it."""

    def __init__(
        self, image: Opened, scheme: str, variables: Mapping[str, str], directory: Path
    ) -> None:
        self.image, self.scheme, self.directory = image, scheme, directory
        # s3:// and gs:// are one server's.
        self.root = f"{stores.BUCKET}/{scheme}"
        self.url = f"{scheme}://{self.root}"
        self.variables = variables
        directory.chmod(0o777)

    def run(self, program: str, *arguments: str) -> Any:
        """Run Python in the image with a program's text; return the JSON that it printed last."""
        variables = (f"{name}={value}" for name, value in self.variables.items())
        command = ("env", *variables, "python3", "-c", program, *arguments)
        printed = self.image.run(*command, mounts={self.directory: "/out"})
        return json.loads(printed.splitlines()[-1])

    def launch(self, text: str, *arguments: str, **more: str) -> Ended:
        """Run a script in the launcher."""
        (self.directory / "script.py").write_text(text)
        command = ("python3", "-m", "slipway_trainer.launch", "--", "/out/script.py", *arguments)
        env = {**self.variables, "SLIPWAY_OUTPUT_DIR": "/out/outputs", **more}
        [ended] = self.image.pods(self.directory, *command, ranks=1, env=env)
        return ended

    def files(self, path: str) -> dict[str, str]:
        """Return the sha256 of each file below a path of this store."""
        found: dict[str, str] = self.run(_READS, f"{self.url}/{path}")
        return found


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """The variables by which a program reaches the store of each scheme."""
    with ExitStack() as stack:
        others = stack.enter_context(stores.moto(tmp_path_factory.mktemp("moto")))
        yield {**others, **stack.enter_context(stores.azurite(tmp_path_factory.mktemp("azure")))}


@pytest.fixture(params=["s3", "gs", "abfs"])
def store(
    image: Opened,
    tmp_path: Path,
    servers: Mapping[str, Mapping[str, str]],
    request: pytest.FixtureRequest,
) -> Store:
    return Store(image, request.param, servers[request.param], tmp_path)


def test_what_arrives_is_what_was_sent(store: Store) -> None:
    """Files of any name sent to s3://, gs:// and abfs:// URLs arrive unchanged."""
    place = {"SLIPWAY_OUTPUTS": f"{store.url}/jobs", "SLIPWAY_RUN_ID": "run-1"}
    ended = store.launch(_LEAVES, *stores.ODD_NAMES, **place)
    assert ended.code == 0, ended.errors
    sent = ended.message["artifacts"]
    assert set(sent) == {"artifacts.json", "logs/0.txt", "model.pt", *stores.ODD_NAMES}
    assert store.files("jobs/run-1") == {
        entry["url"].removeprefix(f"{store.scheme}://"): entry["sha256"] for entry in sent.values()
    }
    assert sent["model.pt"]["sha256"] == sha256(_MODEL).hexdigest()


def test_of_a_jobs_runs_the_last_and_the_last_that_succeeded_stay_and_can_be_read(
    store: Store,
) -> None:
    found = store.run(_KEEPS, f"{store.url}/kept")
    assert found["sent"] == ["artifacts.json", "model.pt"]
    assert found["fetched"] == [len(_MODEL), sha256(_MODEL).hexdigest()]
    root = f"{store.root}/kept/slipway/outputs/mine"
    runs = (f"{root}/{run}/{name}" for run in ("run-2", "run-3") for name in found["sent"])
    assert store.files("kept/slipway").keys() == {*runs, f"{root}/run-2/.slipway-ended"}


def test_checkpoints_are_there_for_the_next_attempt_and_go_when_all_is_done(store: Store) -> None:
    """Checkpoints in a store are there for the next attempt, wherever its pods are."""
    place = f"checkpoints/{'a' * 16}"
    checkpoints = {"SLIPWAY_CHECKPOINT_URL": f"{store.url}/{place}"}
    found = []
    for attempt, code in enumerate((3, 3, 0)):
        checkpoints["SLIPWAY_CHECKPOINT_DIR"] = f"/out/{attempt}"  # empty, as in a new pod
        ended = store.launch(_STEPS, str(code), **checkpoints)
        assert ended.code == code, ended.errors
        found += [event["names"] for event in ended.of("found")]
        assert len(store.files(place)) == (1 if code else 0)
    assert found == [[], ["step-0"], ["step-7"]]


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_each_ranks_part_of_a_sharded_checkpoint_is_there_for_every_pod(store: Store) -> None:
    (store.directory / "sharded.py").write_text(_SHARDED)
    place = f"{store.url}/checkpoints/{'b' * 16}"
    env = {**store.variables, "SLIPWAY_CHECKPOINT_URL": place, "GLOO_SOCKET_IFNAME": "lo"}
    for attempt, code in (("save", 3), ("load", 0)):
        pods = store.image.pods(store.directory, "sh", "-c", _POD, "sh", attempt, env=env)
        assert [pod.code for pod in pods] == [code, code], pods[0].errors


@pytest.mark.parametrize(
    ("store", "reason"),
    [("s3", "NoSuchBucket"), ("gs", "NoSuchBucket"), ("abfs", "No such container")],
    indirect=["store"],
)
def test_a_missing_bucket_fails_the_job_with_the_reason_in_a_few_lines(
    store: Store, reason: str
) -> None:
    missing = store.url.replace(stores.BUCKET, "missing")
    ended = store.launch(_LEAVES, SLIPWAY_OUTPUTS=missing)
    assert ended.code == 1
    error = ended.message["error"]
    assert reason in error
    assert missing in error
    assert "RetryError" not in error


@pytest.mark.parametrize("store", ["abfs"], indirect=True)
def test_a_wrong_key_fails_the_job_and_is_not_shown(store: Store) -> None:
    name = "AZURE_STORAGE_CONNECTION_STRING"
    wrong = store.variables[name].replace("AccountKey=", "AccountKey=AAAA")
    ended = store.launch(_LEAVES, SLIPWAY_OUTPUTS=f"{store.url}/jobs", **{name: wrong})
    assert ended.code == 1
    assert "AuthorizationFailure" in ended.message["error"]
    assert not [file for file in store.directory.glob("0.*") if "AAAA" in file.read_text()]
