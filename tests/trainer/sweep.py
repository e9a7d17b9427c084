"""Installs packages beside torch as a job's image does, and imports them; it runs inside of the trainer's image, as root.

    python3 /sweep.py transformers:transformers opencv-python-headless:cv2 …

Each gets an environment of its own over Debian's packages, like /opt/venv. It prints a line of JSON for each.
"""

import json
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

_PLACE = Path("/tmp/sweep")
_INSTALL = ("install", "--progress-bar=off", "--disable-pip-version-check", "--root-user-action=ignore")
_IMPORT = """
import importlib, sys
torch = importlib.import_module("torch")
importlib.import_module(sys.argv[1])
from importlib.metadata import version
assert torch.__file__.startswith("/usr/"), torch.__file__
print(version(sys.argv[2]))
"""


def tried(package: str, module: str) -> dict[str, Any]:
    """Return the version that was installed and imported beside the image's torch, or what was printed instead."""
    shutil.rmtree(_PLACE, ignore_errors=True)
    venv.create(_PLACE, system_site_packages=True, with_pip=False)
    python = str(_PLACE / "bin" / "python")
    names = ("torch", "torchvision")
    kept = _PLACE / "kept.txt"
    kept.write_text("".join(f"{each}=={metadata.version(each)}\n" for each in names))
    install = (sys.executable, "-m", "pip", "--python", python, *_INSTALL, "--constraint", str(kept))
    for command in ((*install, package), (python, "-c", _IMPORT, module, package)):
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            return {"package": package, "printed": done.stdout[-20_000:]}
    return {"package": package, "version": done.stdout.split()[-1]}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(json.dumps(tried(*argument.split(":"))), flush=True)
