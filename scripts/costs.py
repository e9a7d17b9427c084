"""Runs a command in the shell and writes what it cost: CPU of all its processes, and wall seconds.

    python costs.py FILE COMMAND

CPU is that of processes which outlive their parents, too. What goes on afterwards, such as a
cluster, is left out, and its processes become those of whoever adopts orphans.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_ENDING_SECONDS = 1.0
"""How long what a command has started may take to end after it."""
_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h: orphans among one's descendants become one's children, to be waited for."""


def main(file: Path, command: str) -> int:
    """Run the command and return its exit status."""
    # Not on macOS, where what outlives its parent is not counted.
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    code = subprocess.call(["bash", "-c", command])
    wall = time.monotonic() - began
    time.sleep(_ENDING_SECONDS)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    file.write_text(json.dumps({"cpu": used.ru_utime + used.ru_stime, "wall": wall}))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
