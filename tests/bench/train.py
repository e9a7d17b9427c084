"""Measure the training in the image that jobs run in, without a cluster.

    python -m tests.bench.train [--rounds 7] [--net mnist]

It opens the image as it was last built and runs tests/trainer/bench in it, which is no part of it.
Beside its torch, which is Debian's, runs the same version as PyPI has it: the packages that the
image for GPUs is made of.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from core import toolchain
from core.context import Silence
from core.paths import CHECKOUT, cache_dir
from images.build import pip
from images.build.releases import RELEASES
from images.build.runner import BuildFailed, Runner
from images.build.trainer import TRAINER_CIFAR

BENCH = "tests/trainer/bench"
PYPI = "/mnt/pypi"
"""The folder of PyPI's packages in the container."""


def main(arguments: list[str]) -> int:
    """Run the benchmark and return its exit code."""
    archive = TRAINER_CIFAR.archive
    if not archive.exists():
        print(f"{archive} is missing: `make up` builds it for a stack with cifar-gloo",
              file=sys.stderr)  # fmt: skip
        return 1
    # In the cache, for the packages there are linked and not copied.
    with tempfile.TemporaryDirectory(prefix="bench-", dir=cache_dir()) as storage:
        store = (f"--root={storage}/images", f"--runroot={storage}/run", "--storage-driver=vfs")
        buildah = [str(toolchain.path("buildah")), *store]
        volumes = [f"--volume={CHECKOUT / BENCH}:/mnt/{BENCH}:ro"]
        packages = _pypi(Path(storage))
        if packages is not None:
            volumes.append(f"--volume={packages}:{PYPI}:ro")
            arguments = [f"--pypi={PYPI}", *arguments]
        command = ["env", "PYTHONPATH=/opt/slipway:/mnt", "python3", "-m", "tests.trainer.bench"]
        try:
            _output([*buildah, "pull", "--quiet", f"oci-archive:{archive}"])
            container = _output([*buildah, "from", TRAINER_CIFAR.reference])
            opened = [*buildah, "run", "--isolation=chroot", *volumes, container, "--", *command]
            return subprocess.run([*opened, *arguments], check=False, timeout=3600).returncode
        finally:
            subprocess.run([*buildah, "rm", "--all"], capture_output=True, check=False, timeout=60)


def _pypi(storage: Path) -> Path | None:
    """Return a directory with PyPI's torch, or None after a line that says why there is none."""
    target = storage / "pypi"
    print("PyPI's torch: 3 GB to fetch, unless it is in the cache", file=sys.stderr)
    torch = str(TRAINER_CIFAR.torch)
    lock = TRAINER_CIFAR.context / f"requirements.cuda-{torch}.lock"
    try:
        runner = Runner(storage / "pip.log", Silence())
        pip.install(lock, target, runner, RELEASES[torch].python)
    except BuildFailed as error:
        print(f"PyPI's torch can't be had, it is left out: {error}", flush=True)
        return None
    return target


def _output(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
