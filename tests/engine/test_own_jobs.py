"""Jobs of one's own on a real cluster: a script, a build, an image; with volumes and outputs."""

import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.stack import LiveStack

_LIMIT = 10 * 60
_SCRIPT = """\
import hashlib, json, os, pathlib, sys, time
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
names += ["SLIPWAY_RUN_ID"]
told = {name: os.environ[name] for name in names}
told |= {"args": sys.argv[1:], "user": os.getuid(), "directory": os.getcwd()}
pathlib.Path("scratch").write_text("the working directory can be written to")
told["token"] = hashlib.sha256(os.environ["TOKEN"].encode()).hexdigest()
told["archive"] = pathlib.Path("/mnt/archive/note").read_text()
outputs = pathlib.Path(os.environ["SLIPWAY_OUTPUT_DIR"])
(outputs / "told.json").write_text(json.dumps(told))
print(json.dumps(told), flush=True)
time.sleep(5)  # Rank 0 has to be there when the others look for it.
if "fail" in sys.argv:
    raise SystemExit("it was told to fail")
"""
_DOCKERFILE = """\
ARG TRAINER
FROM ${TRAINER}
COPY greeting /opt/greeting
CMD ["python3", "-c", "import torch; print(open('/opt/greeting').read(), torch.__version__)"]
"""
_PRINT = "import sys, time; print(*sys.argv[1:], sep='|', flush=True); time.sleep(5)"


@pytest.fixture(scope="module")
def archive(live_stack: LiveStack) -> Iterator[Path]:
    """A directory of the node with a file that everybody may read."""
    directory = live_stack.scratch.directory / "archive"
    directory.mkdir(mode=0o755)
    live_stack.scratch.directory.chmod(0o755)
    (directory / "note").write_text("from the node")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def own(live_stack: LiveStack, archive: Path) -> Iterator[LiveStack]:
    """The stack with jobs of one's own beside its demos; they go in the end."""
    checkout = live_stack.scratch.checkout
    settings = checkout / "Pulumi.dev.yaml"
    before = settings.read_text()
    (checkout / "mine").mkdir()
    (checkout / "mine/train.py").write_text(_SCRIPT)
    (checkout / "built").mkdir()
    (checkout / "built/Dockerfile").write_text(_DOCKERFILE)
    (checkout / "built/greeting").write_text("hello from the build")
    live_stack.kubectl(
        "--namespace slipway-jobs create secret generic hub --from-literal=key=told-to-nobody"
    )
    document = yaml.safe_load(before)
    document["config"]["slipway:jobs"] |= _jobs(live_stack, archive)
    settings.write_text(yaml.safe_dump(document))
    try:
        finished = live_stack.attempt("make up", _LIMIT)
        assert "job failing ended Failed" in finished.said, finished
        yield live_stack
    finally:
        settings.write_text(before)
        live_stack.run("make up", _LIMIT)
        live_stack.kubectl("--namespace slipway-jobs delete secret hub")


def _jobs(stack: LiveStack, archive: Path) -> dict[str, Any]:
    small = {"cpu": "100m", "memory": "256Mi"}
    scripted = {
        "script": "mine",
        "workers": 1,
        "env": {"TOKEN": {"secret": "hub", "key": "key"}},
        "outputs": "file:///results",
        "volumes": {
            "archive": {"hostPath": str(archive), "mountPath": "/mnt/archive", "readOnly": True},
            "results": {"size": "100Mi", "mountPath": "/results"},
        },
        **small,
    }
    trainer = json.loads(stack.kubectl("--namespace slipway-jobs get pods --output json"))
    image = next(
        pod["spec"]["containers"][0]["image"]
        for pod in trainer["items"]
        if pod["metadata"]["name"] == "mnist-gloo-master-0"
    )
    placeholders = ["{hosts}", "{rank}", "{run_id}"]
    return {
        "scripted": {**scripted, "args": ["--flag", "value"]},
        "failing": {**scripted, "args": ["fail"], "workers": 0},
        "built": {"build": {"context": "built"}, "workers": 0, **small, "memory": "512Mi"},
        "placed": {"image": image, "command": ["python3", "-c", _PRINT, *placeholders], **small},
    }


def _log(stack: LiveStack, job: str, rank: int) -> str:
    return stack.run(f"make logs JOB={job} RANK={rank}").output.strip()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_script_finds_what_it_needs(own: LiveStack, rank: int) -> None:
    told = json.loads(_log(own, "scripted", rank).splitlines()[0])
    run_id = own.job("scripted")["run_id"]
    assert told == {
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "scripted-master-0",
        "MASTER_PORT": told["MASTER_PORT"],
        "SLIPWAY_RUN_ID": run_id,
        "token": sha256(b"told-to-nobody").hexdigest(),
        "args": ["--flag", "value"],
        "user": 65532,
        "directory": "/work",
        "archive": "from the node",
    }


def test_what_a_script_left_is_copied_out_and_told_with_its_hash(own: LiveStack) -> None:
    result = own.job("scripted")
    told = result["artifacts"]["told.json"]
    assert told["url"] == f"file:///results/{result['run_id']}/told.json"
    [copy] = _copies(own, result["run_id"], "told.json")
    assert sha256(copy.read_bytes()).hexdigest() == told["sha256"]
    assert json.loads(copy.read_text())["RANK"] == "0"
    [other] = _copies(own, result["run_id"], "replica-1/told.json")
    assert json.loads(other.read_text())["RANK"] == "1"


def test_what_a_script_left_is_copied_out_after_a_failure_too(own: LiveStack) -> None:
    result = own.job("failing")
    assert result["state"] == "Failed"
    whole = json.loads(own.run("make results JOB=failing FORMAT=json").output)["result"]
    assert "it was told to fail" in "\n".join(whole["failure"]["log"])
    assert "log" not in result["failure"], "the error of `up` has it"
    [copy] = _copies(own, result["run_id"], "told.json")
    told = result["failure"]["artifacts"]["told.json"]
    assert sha256(copy.read_bytes()).hexdigest() == told["sha256"]


def test_a_secret_is_in_no_state(own: LiveStack) -> None:
    assert "told-to-nobody" not in own.pulumi("stack export --show-secrets")


def test_a_build_runs_by_its_digest(own: LiveStack) -> None:
    assert own.job("built")["state"] == "Succeeded"
    assert _log(own, "built", 0).startswith("hello from the build 2.")
    pod = json.loads(own.kubectl("--namespace slipway-jobs get pod built-master-0 --output json"))
    [container] = pod["spec"]["containers"]
    assert "@sha256:" in container["image"]


@pytest.mark.parametrize("rank", [0, 1])
def test_placeholders_are_filled_in(own: LiveStack, rank: int) -> None:
    run_id = own.job("placed")["run_id"]
    expected = f"placed-master-0,placed-worker-0|{rank}|{run_id}"
    assert _log(own, "placed", rank) == expected


def _copies(stack: LiveStack, run_id: str, path: str) -> list[Path]:
    """Return the files at `path` in the run's folder, on whichever volume of the node it is."""
    volumes = stack.scratch.state_home / "slipway/clusters/dev/volumes"
    return list(volumes.glob(f"*/{run_id}/{path}"))
