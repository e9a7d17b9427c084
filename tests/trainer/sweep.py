"""Installs packages beside torch as a job's image does, and imports them; it runs in that image.

    python3 /sweep.py transformers:transformers opencv-python-headless:cv2 …

Each gets an environment of its own over Debian's packages, as /opt/venv is one. It writes a line
of JSON for each. It needs root, since the image's user may not write there.
"""

import json
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

_PLACE = Path("/tmp/sweep")  # in a container of its own
_KEPT = ("torch", "torchvision")
_INSTALL = (
    *("install", "--progress-bar=off", "--disable-pip-version-check", "--use-pep517"),
    "--root-user-action=ignore",
)
_IMPORT = """
import importlib, importlib.metadata, sys
torch = importlib.import_module("torch")
importlib.import_module(sys.argv[1])
assert torch.__file__.startswith("/usr/"), torch.__file__
print(importlib.metadata.version(sys.argv[2]))
"""


def tried(package: str, module: str) -> dict[str, Any]:
    """Return the version that was installed and imported, or what was printed instead."""
    shutil.rmtree(_PLACE, ignore_errors=True)
    venv.create(_PLACE, system_site_packages=True, with_pip=False)
    python, kept = str(_PLACE / "bin" / "python"), _PLACE / "kept.txt"
    kept.write_text("".join(f"{each}=={metadata.version(each)}\n" for each in _KEPT))
    pip = (sys.executable, "-m", "pip", "--python", python, *_INSTALL, "--constraint", str(kept))
    for command in ((*pip, package), (python, "-c", _IMPORT, module, package)):
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            return {"package": package, "printed": done.stdout[-20_000:]}
    return {"package": package, "version": done.stdout.split()[-1]}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{json.dumps(tried(*argument.split(':')))}\n")
        sys.stdout.flush()
