"""Measure the training in the image that jobs run in, without a cluster.

    python -m tests.bench.train [--rounds 7]

It opens the image as it was last built and runs tests/trainer/bench in it, which is no part of it.
"""

import subprocess
import sys
import tempfile

from core import toolchain
from core.paths import CHECKOUT
from images.build.trainer import TRAINER_CIFAR

LIMIT_SECONDS = 1800
BENCH = "tests/trainer/bench"


def main(arguments: list[str]) -> int:
    """Run the benchmark and return its exit code."""
    if not TRAINER_CIFAR.archive.exists():
        print(
            f"{TRAINER_CIFAR.archive} is missing: `make up` builds it for a stack with cifar-gloo",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as storage:
        buildah = [
            str(toolchain.path("buildah")),
            f"--root={storage}/images",
            f"--runroot={storage}/run",
            "--storage-driver=vfs",
        ]
        try:
            _output([*buildah, "pull", "--quiet", f"oci-archive:{TRAINER_CIFAR.archive}"])
            container = _output([*buildah, "from", TRAINER_CIFAR.reference])
            volume = f"--volume={CHECKOUT / BENCH}:/mnt/{BENCH}:ro"
            command = [
                "env",
                "PYTHONPATH=/opt/slipway:/mnt",
                "python3",
                "-m",
                "tests.trainer.bench",
            ]
            opened = [*buildah, "run", "--isolation=chroot", volume, container, "--", *command]
            opened += arguments
            return subprocess.run(opened, check=False, timeout=LIMIT_SECONDS).returncode
        finally:
            subprocess.run([*buildah, "rm", "--all"], capture_output=True, check=False, timeout=60)


def _output(command: list[str]) -> str:
    """Return what a command prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
