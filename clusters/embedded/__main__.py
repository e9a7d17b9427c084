"""One embedded cluster by hand: python -m clusters.embedded create --directory DIRECTORY."""

import argparse
import sys
from pathlib import Path

from clusters.embedded import health, lifecycle
from clusters.embedded.host import examine
from clusters.embedded.layout import Layout


def main() -> int:
    """Returns 1 when `health` finds something the matter."""
    parser = argparse.ArgumentParser(prog="python -m clusters.embedded", description=__doc__)
    parser.add_argument("action", choices=["create", "health", "stop", "delete"])
    parser.add_argument("--directory", type=Path, required=True)
    arguments = parser.parse_args()
    layout = Layout(arguments.directory.resolve())
    match arguments.action:
        case "create":
            lifecycle.bring_up(layout, report=lambda line: print(line, flush=True))  # noqa: T201
        case "stop":
            lifecycle.stop(layout)
        case "delete":
            lifecycle.remove(layout)
        case _:
            problems = health.problems(layout, examine(layout))
            print("\n".join(map(str, problems)) or "healthy")  # noqa: T201
            return 1 if problems else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
