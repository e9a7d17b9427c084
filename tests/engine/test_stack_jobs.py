"""The jobs that a person declares: the catalogue's demos, and their own script, build and image."""

import json
import re
import shutil
import tarfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT
from images.build.trainer import TRAINER
from jobs.config import CATALOG
from jobs.model.job import declaration
from jobs.model.pytorchjob import Topology
from scripts.scratch import Finished
from tests.doubles.webhook import PATH, Webhook, signature, webhook
from tests.engine.stack import UP_SECONDS, LiveStack

_OWN_JOB = CHECKOUT / "docs/own-job.md"
TRAINING_SAMPLES = {
    "mnist": 60_000, "cifar10": 50_000, "fashion-mnist-as-cifar10": 50_000, "images": 6_000,
}  # fmt: skip
DEMOS = ("mnist-gloo", "cifar-single-node", "images-gloo", "cifar-gloo", "mnist-elastic")
"""Those that need no GPU."""
_SCRIPT = """\
import hashlib, importlib.metadata, json, os, pathlib, sys, time
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
names += ["SLIPWAY_RUN_ID"]
told = {name: os.environ[name] for name in names}
told |= {"args": sys.argv[1:], "user": os.getuid(), "directory": os.getcwd()}
pathlib.Path("scratch").write_text("the working directory can be written to")
for name in ("TOKEN", "OTHER"):
    told[name.lower()] = hashlib.sha256(os.environ[name].encode()).hexdigest()
if "--flag" in sys.argv:
    import torchmetrics
    told["torchmetrics"] = torchmetrics.__version__
    told["torch"] = importlib.metadata.version("torch").split(".")[:2]
told["archive"] = pathlib.Path("/mnt/archive/note").read_text()
told["data"] = pathlib.Path(os.environ["SLIPWAY_DATA_DIR"], "packed/note").read_text()
outputs = pathlib.Path(os.environ["SLIPWAY_OUTPUT_DIR"])
(outputs / "told.json").write_text(json.dumps(told))
print(json.dumps(told), flush=True)
time.sleep(5)  # Rank 0 has to be there when the others look for it.
if "fail" in sys.argv:
    raise SystemExit("it was told to fail")
"""
_BUILT = """\
import os, sys, einops, torch
print("built with einops", einops.__version__, "torch", torch.__version__, *sys.argv[1:])
print("its files stay" if os.path.isdir(os.environ["SLIPWAY_OUTPUT_DIR"]) else "", os.getcwd())
"""
_CANARY, _SIGNS = "whispered-to-no-one", "signs-for-no-one"


Declare = Callable[[Mapping[str, Any]], Finished]


@pytest.fixture(scope="module")
def declare(live_stack: LiveStack) -> Iterator[Declare]:
    """Bring the stack to other jobs, whatever comes of them; it becomes what it was in the end."""

    def bring_up(jobs: Mapping[str, Any]) -> Finished:
        live_stack.configure(jobs=dict(jobs))
        return live_stack.attempt("make up", UP_SECONDS)

    with live_stack.configured():
        yield bring_up
    live_stack.up()
    # The Secrets of jobs that are no longer declared have gone with them.
    assert "-env" not in live_stack.kubectl("--namespace slipway-jobs get secrets --output name")


@pytest.mark.long
def test_every_demo_reaches_its_accuracy_on_every_sample(
    live_stack: LiveStack, declare: Declare
) -> None:
    """Each has a gate; that outputs match the logs, and those `make logs`: test_life.py."""
    finished = declare({demo: {} for demo in DEMOS})
    assert finished.code == 0, finished
    for demo in DEMOS:
        job, result = CATALOG[demo], live_stack.job(demo)
        assert job.min_accuracy is not None
        assert job.epochs is not None
        name = "images" if job.module == "images" else result["dataset"]
        assert result["samples_seen"] == job.epochs * TRAINING_SAMPLES[name], demo
        assert len(result["epoch_accuracies"]) == job.epochs
        assert result["world_size"] == Topology.of_declared(declaration(job)).world_size


@pytest.fixture(scope="module")
def archive(live_stack: LiveStack) -> Iterator[Path]:
    """A directory of the node with a file that everybody may read."""
    directory = live_stack.scratch.directory / "archive"
    directory.mkdir(mode=0o755)
    live_stack.scratch.directory.chmod(0o755)
    (directory / "note").write_text("from the node")
    with tarfile.open(directory / "data.tar.gz", "w:gz") as packed:
        packed.add(directory / "note", "packed/note")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def told() -> Iterator[Webhook]:
    """A webhook."""
    with webhook() as made:
        yield made


@pytest.fixture(scope="module")
def own(
    live_stack: LiveStack, declare: Declare, archive: Path, told: Webhook
) -> Iterator[LiveStack]:
    """The stack with jobs of one's own beside a demo, and a webhook."""
    (documented,) = re.findall(r"```dockerfile\n(.*?)```", _OWN_JOB.read_text(), re.DOTALL)
    for name, content in {
        "mine/train.py": _SCRIPT,
        "mine/requirements.txt": "torchmetrics==1.8.2\n",
        "lacking.txt": "slipway-has-no-such-package==1\n",
        "built/Dockerfile": f"{documented}WORKDIR /opt/mine\n",
        "built/train.py": _BUILT,
    }.items():
        file = live_stack.scratch.checkout / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    live_stack.kubectl(
        "--namespace slipway-jobs create secret generic hub --from-literal=key=told-to-nobody"
    )
    secrets = {"hfToken": _CANARY, "hook": told.url, "hookKey": _SIGNS}
    for name, value in secrets.items():
        live_stack.pulumi(f"config set --secret {name} {value}")
    address = {"url": {"config": "hook"}, "key": {"config": "hookKey"}}
    live_stack.configure(notify={**address, "on": ["succeeded", "failed"]})
    finished = declare({"mnist-gloo": {}, **_jobs(archive)})
    assert "job failing ended Failed" in finished.text, finished.text
    (live_stack.scratch.directory / "up.log").write_text(finished.text)
    yield live_stack
    live_stack.kubectl("--namespace slipway-jobs delete secret hub")


def _jobs(archive: Path) -> dict[str, Any]:
    small = {"cpu": "100m", "memory": "256Mi"}
    scripted = {
        "script": "mine",
        "workers": 1,
        "env": {"TOKEN": {"secret": "hub", "key": "key"}, "OTHER": {"config": "hfToken"}},
        "outputs": "file:///results",
        "data": {
            "url": "file:///mnt/archive/data.tar.gz",
            "sha256": sha256((archive / "data.tar.gz").read_bytes()).hexdigest(),
        },
        "volumes": {
            "archive": {"hostPath": str(archive), "mountPath": "/mnt/archive", "readOnly": True},
            "results": {"size": "100Mi", "mountPath": "/results"},
        },
        **small,
    }
    return {
        "scripted": {
            **scripted,
            "memory": "512Mi",
            "args": ["--flag", "value"],
            "keep": ["scr*"],
            "requirements": "mine/requirements.txt",
        },
        "failing": {**scripted, "command": ["python", "train.py"], "args": ["fail"], "workers": 0},
        "built": {
            "build": {"context": "built"},
            "args": ["--epochs", "3"],
            "workers": 0,
            "cpu": "100m",
            "memory": "512Mi",
        },
        "lacking": {"script": "mine", "requirements": "lacking.txt", **small},
    }


def _log(stack: LiveStack, pod: str) -> list[str]:
    return stack.kubectl(f"--namespace slipway-jobs logs {pod}").splitlines()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_script_finds_what_it_needs(own: LiveStack, rank: int) -> None:
    """The packages of `requirements` are there in the pods, and torch is still the trainer's."""
    replica = ("master-0", "worker-0")[rank]
    told = json.loads(_log(own, f"scripted-{replica}")[0])
    assert told == {
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "scripted-master-0",
        "MASTER_PORT": told["MASTER_PORT"],
        "SLIPWAY_RUN_ID": own.job("scripted")["run_id"],
        "token": sha256(b"told-to-nobody").hexdigest(),
        "other": sha256(_CANARY.encode()).hexdigest(),
        "torchmetrics": "1.8.2",
        "torch": str(TRAINER.torch).split("."),
        "args": ["--flag", "value"],
        "user": 65532,
        "directory": "/work/src/scripted",
        "archive": "from the node",
        "data": "from the node",
    }


def test_files_of_a_script_are_copied_out_with_a_hash_or_named_as_lost(own: LiveStack) -> None:
    """Artifacts, also after a failure, and what it wrote where it started and `keep` names."""
    result = own.job("scripted")
    left = result["artifacts"]
    assert left["told.json"]["url"] == f"file:///results/{result['run_id']}/told.json"
    for name in ("told.json", "scratch"):
        assert _sum(own, result["run_id"], name) == left[name]["sha256"]
        assert _sum(own, result["run_id"], f"replica-1/{name}")

    result = own.job("failing")
    assert result["state"] == "Failed"
    left = result["failure"]["artifacts"]
    assert _sum(own, result["run_id"], "told.json") == left["told.json"]["sha256"]
    whole = json.loads(own.run("make results JOB=failing FORMAT=json").output)["result"]
    assert "it was told to fail" in "\n".join(whole["failure"]["log"])
    assert "log" not in result["failure"], "the error of `up` has it"
    printed = (own.scratch.directory / "up.log").read_text()
    lost = 'lost with the pod: scratch (39 bytes). To keep such files, add `keep: ["scratch"]`'
    assert lost in printed
    assert "make rerun JOB=failing" in printed
    assert "make rerun JOB=scripted" not in printed


def test_a_build_runs_by_its_digest(own: LiveStack) -> None:
    """The Dockerfile in docs/own-job.md works as it stands."""
    assert own.job("built")["state"] == "Succeeded"
    first, second = _log(own, "built-master-0")
    assert first.startswith(f"built with einops 0.8.1 torch {TRAINER.torch}")
    assert first.endswith("--epochs 3")
    assert second == "its files stay /opt/mine"
    pod = json.loads(own.kubectl("--namespace slipway-jobs get pod built-master-0 --output json"))
    [container] = pod["spec"]["containers"]
    assert "@sha256:" in container["image"]


def test_secrets_are_in_their_kubernetes_secrets_alone_and_the_webhooks_address_nowhere(
    own: LiveStack,
) -> None:
    assert "told-to-nobody" not in own.pulumi("stack export --show-secrets")
    coded = b64encode(_CANARY.encode()).decode()
    assert coded in own.kubectl("--namespace slipway-jobs get secret scripted-env --output json")
    assert _found(own, _CANARY, coded, PATH, _SIGNS) == []


def test_a_webhook_gets_every_end_signed(own: LiveStack, told: Webhook) -> None:
    """Once; the demo was there before."""
    ends = {"scripted": "Succeeded", "built": "Succeeded", "failing": "Failed"}
    expected = {f"{own.job(job)['run_id']}/{state}" for job, state in ends.items()}
    assert sorted(body["id"] for body in told.bodies) == sorted(expected)
    assert {body["stack"] for body in told.bodies} == {"dev"}
    [reason] = [body["reason"] for body in told.bodies if body["job"] == "failing"]
    assert "exited with code 1" in reason
    for headers, body in told.got:
        assert headers["Slipway-Signature"] == signature(_SIGNS, body)


def _found(own: LiveStack, *secrets: str) -> list[str]:
    """Return where one of these secrets can be read."""
    looked_at = {
        "what `make up` printed": (own.scratch.directory / "up.log").read_text(),
        "the stack's file": own.settings.read_text(),
        "the state": own.pulumi("stack export"),
        "the outputs": own.pulumi("stack output --json --show-secrets"),
        "the results": own.run("make results JOB=scripted FORMAT=json").output,
        "the logs": own.run("make logs JOB=scripted FOLLOW=0").output,
        "the cluster": own.kubectl(
            "get pytorchjobs,pods,configmaps,events --all-namespaces --output json"
        ),
        **{str(path): path.read_text(errors="replace") for path in _kept(own)},
    }
    return [place for place, text in looked_at.items() if any(each in text for each in secrets)]


def _kept(stack: LiveStack) -> Iterator[Path]:
    """Yield the files of Slipway's own but those of the cluster, whose etcd has the Secret."""
    for folder in (stack.scratch.state_home / "slipway").iterdir():
        if folder.name != "clusters":
            yield from (path for path in folder.rglob("*") if path.is_file())


def test_another_value_of_a_secret_changes_the_secret_and_trains_nothing(own: LiveStack) -> None:
    own.pulumi("config set --secret hfToken another-one-for-no-one")
    preview = own.pulumi("preview --json")
    assert "another-one" not in preview
    steps = {step["urn"].split("::", 2)[2]: step["op"] for step in json.loads(preview)["steps"]}
    assert steps["kubernetes:core/v1:Secret::scripted-env"] in {"update", "replace"}
    assert steps.get("slipway:jobs:PyTorchJob::scripted", "same") == "same"


def test_a_package_that_cannot_be_had_ends_up_before_the_job_is_submitted(own: LiveStack) -> None:
    """The message has pip's reason and what to do."""
    said = (own.scratch.directory / "up.log").read_text()
    reason = "the index does not offer slipway-has-no-such-package==1"
    assert f"lacking.txt can't be installed: {reason}" in said
    assert "Correct the file and run `make up` again" in said
    jobs = own.kubectl("--namespace slipway-jobs get pytorchjobs --output name")
    assert "/lacking" not in jobs


def _sum(stack: LiveStack, run_id: str, path: str) -> str:
    """Return the sha256 of a file in a run's folder, on whichever volume of the node it is."""
    [file] = stack.cluster.glob(f"volumes/*/{run_id}/{path}")
    return sha256(file.read_bytes()).hexdigest()
