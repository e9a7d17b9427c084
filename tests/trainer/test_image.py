"""What is in the trainer's image."""

import gzip
import hashlib
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from core.context import Silence
from images.build import debian, pip
from images.build.job import JobImageSpec, RequirementsSpec
from images.build.releases import RELEASES
from images.build.runner import Runner
from images.build.trainer import TRAINER_CIFAR
from images.datasets.cifar10 import CIFAR10
from images.datasets.mnist import MNIST
from tests.trainer.conftest import Opened

_PYTHON = RELEASES[str(TRAINER_CIFAR.torch)].python

_CIFAR10 = """
import json, sys
sys.stderr = sys.stdout
from slipway_trainer.data.datasets import CIFAR10
for train in (True, False):
    data = CIFAR10("/data/cifar10", train=train)
    counts = [data.targets.count(label) for label in range(10)]
    about = {"shape": data.data.shape, "counts": counts, "classes": data.classes}
    print(json.dumps({**about, "size": data[0][0].size}))
# As its home page says.
import pickle
for name in ("data_batch_3", "test_batch"):
    path = f"/data/cifar10/cifar-10-batches-py/{name}"
    one, two = (pickle.load(open(path, "rb"), encoding=each) for each in ("bytes", "latin1"))
    assert (one[b"data"] == two["data"]).all() and one[b"labels"] == two["labels"]
    print(two["data"].dtype, *two["data"].shape, len(two["filenames"]))
"""
# torchvision.datasets.MNIST.resources: the archives' md5; and when each was compressed, in seconds
# since 1970.
_ARCHIVES = (
    ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 848331386),
    ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432", 848331398),
    ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3", 885827245),
    ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c", 885827268),
)


@pytest.mark.long
def test_the_files_are_those_whose_archives_torchvision_publishes() -> None:
    """Compressed as they once were, they give the published archives to the byte."""
    assert {Path(path).name for path in MNIST.files} == {name for name, _, _ in _ARCHIVES}
    for name, md5, modified in _ARCHIVES:
        raw = MNIST.directory / "MNIST/raw" / name
        made = subprocess.run(
            ["gzip", "-6", "--no-name", "--stdout", str(raw)], capture_output=True, check=True
        ).stdout
        # The header (RFC 1952) has that time, and the name that it had then, with a dot.
        header = b"\x1f\x8b\x08\x08" + modified.to_bytes(4, "little") + b"\0\x03"
        published = header + name.replace("-idx", ".idx").encode() + b"\0" + made[10:]
        assert hashlib.md5(published, usedforsecurity=False).hexdigest() == md5
        assert gzip.decompress(published) == raw.read_bytes()


def test_the_pictures_of_cifar10_are_named_and_can_be_read_in_each_way(image: Opened) -> None:
    taken = CIFAR10.taken()
    assert taken is not None
    about = json.loads(image.run("cat", "/data/cifar10/DATASET"))
    assert (about["name"], about["classes"]) == (taken.name, list(taken.classes))
    assert about["md5"].keys() == CIFAR10.files.keys()
    sums = image.run("sh", "-c", "cd /data/cifar10 && md5sum cifar-10-batches-py/*").split()
    assert dict(zip(sums[1::2], sums[::2], strict=True)) == about["md5"]
    *said, train, test, first, second = image.run("python3", "-c", _CIFAR10).splitlines()
    for line, count in ((train, 5000), (test, 1000)):
        assert json.loads(line) == {
            "shape": [10 * count, 32, 32, 3],
            "counts": [count] * 10,
            "classes": list(taken.classes),
            "size": [32, 32],
        }
    stands_in = taken.name != "cifar10"
    assert len([line for line in said if f"{taken.name} instead of CIFAR-10" in line]) == stands_in
    assert first == second == "uint8 10000 3072 10000"


def test_it_runs_as_a_user_without_rights_and_programs_keep_their_licenses(image: Opened) -> None:
    assert image.run("id", "--user").strip() == "65532"
    assert image.run("sh", "-c", "test -w /opt/slipway -o -w /data || echo no").strip() == "no"
    assert image.run("ls", f"/usr/share/doc/libtorch{TRAINER_CIFAR.torch}/copyright").strip()


@pytest.mark.long
def test_a_build_from_it_installs_with_this_machines_pip_settings_and_keeps_none(
    image: Opened, tmp_path: Path
) -> None:
    """Ten packages, pinned; through whatever stands between this machine and the index.

    One has no wheel, and some need newer versions of what Debian has. torch stays Debian's.
    """
    built = _with_packages(image, tmp_path, Path(__file__).with_name("packages.lock").read_text())
    container = image.buildah("from", built).strip()
    names = "transformers accelerate timm hydra omegaconf torchmetrics einops pydantic typer"
    look = (
        f"import antlr4, sentencepiece, {', '.join(names.split())}; "
        "import importlib.metadata as m, os, torch; print(torchmetrics.__file__, "
        "torch.__file__, m.version('torch')[:4], open('/etc/pip.conf').read(), "
        "os.path.exists('/mnt/requirements.txt'))"
    )
    asked = f"python3 -c {shlex.quote(look)}; cat /run/slipway* /tmp/* 2>/dev/null; id -u"
    options = ("--isolation=chroot", container, "--", "sh", "-c", asked)
    found = image.buildah("run", *options)
    assert found.split() == [
        f"/opt/venv/lib/python{_PYTHON}/site-packages/torchmetrics/__init__.py",
        "/usr/lib/python3/dist-packages/torch/__init__.py",
        *(str(TRAINER_CIFAR.torch), "False", "65532"),
    ], found


def test_a_build_uses_the_shells_proxy_and_its_image_does_not_keep_the_password(
    image: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://me:s3cret@127.0.0.1:9")
    (tmp_path / "Dockerfile").write_text(
        "ARG TRAINER\nFROM $TRAINER\nRUN env | grep -ci https_proxy=http://me:s.cret@ | grep 2\n"
    )
    spec = JobImageSpec("mine", tmp_path, "Dockerfile", TRAINER_CIFAR.reference)
    plan = spec.prepare(image.engine, Runner(tmp_path / "log", Silence()), tmp_path)
    plan = replace(plan, arguments=(*plan.arguments, *debian.proxies()))
    image.buildah(*image.engine.build(plan, "localhost/mine")[len(image.engine.call) :])
    described = image.buildah("inspect", "localhost/mine")
    assert "grep 2" in described
    assert "s3cret" not in described
    monkeypatch.undo()  # else the shell's variables are there
    assert "s3cret" not in image.run("sh", "-c", "env; cat /etc/environment /etc/pip.conf 2>&1; :")


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (f"six==1.17.0 --hash=sha256:{'0' * 64}\n", "the hash of six==1.17.0 is"),
        ("torch==2.9.1\n", "the file lists torch==2.9.1; the image has torch==2.14"),
    ],
)
def test_pip_says_why_a_package_cannot_be_had(
    image: Opened, tmp_path: Path, listed: str, reason: str
) -> None:
    with pytest.raises(AssertionError) as raised:
        _with_packages(image, tmp_path, listed)
    assert reason in str(pip.reason(str(raised.value)))


def _with_packages(image: Opened, directory: Path, listed: str) -> str:
    """Build the image of a script with these requirements, and return its name."""
    (directory / "needs.txt").write_text(listed)
    spec = RequirementsSpec.from_file(
        directory / "needs.txt", TRAINER_CIFAR.name, TRAINER_CIFAR.reference
    )
    plan = spec.prepare(image.engine, Runner(directory / "log", Silence()), directory)
    image.buildah(*image.engine.build(plan, spec.reference)[len(image.engine.call) :])
    return spec.reference
