"""Becomes supervisord, inside the node's namespaces and control group.

Run by `supervisor.start` behind nsenter and unshare; not for use by hand.
"""

import argparse
import os
import sys
from pathlib import Path

from clusters.embedded import cgroups, mounts
from clusters.embedded.layout import Layout


def main() -> None:
    """Join the group, mount what is private, and give way to supervisord."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument(
        "--joined",
        action="store_true",
        help="the mount namespace is that of containers that still run",
    )
    arguments = parser.parse_args()
    layout = Layout(arguments.directory)
    cgroups.join(layout)
    if not arguments.joined:
        mounts.establish(layout)
    configuration = str(layout.config / "supervisord.conf")
    os.execv(  # noqa: S606 (no shell is needed)
        sys.executable, [sys.executable, "-m", "supervisor.supervisord", "-c", configuration]
    )


if __name__ == "__main__":
    main()
