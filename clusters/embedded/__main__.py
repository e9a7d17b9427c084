"""One embedded cluster by hand: python -m clusters.embedded create --directory DIRECTORY."""

import argparse
import sys
from functools import partial
from pathlib import Path

from clusters.embedded import health, lifecycle
from clusters.embedded.host import examine
from clusters.embedded.layout import Layout


def main() -> int:
    """Run the command; return 1 when `health` finds a problem."""
    parser = argparse.ArgumentParser(prog="python -m clusters.embedded", description=__doc__)
    parser.add_argument("action", choices=["create", "health", "stop", "delete"])
    parser.add_argument("--directory", type=Path, required=True)
    arguments = parser.parse_args()
    layout = Layout(arguments.directory.resolve())
    try:
        return _perform(arguments.action, layout)
    except (RuntimeError, TimeoutError) as error:
        sys.exit(str(error))


def _perform(action: str, layout: Layout) -> int:
    if action == "create":
        lifecycle.bring_up(layout, report=partial(print, flush=True))
    elif action == "stop":
        lifecycle.stop(layout)
    elif action == "delete":
        lifecycle.remove(layout)
    else:
        problems = health.problems(layout, examine(layout))
        print("\n".join(map(str, problems)) or "healthy")  # noqa: T201
        return 1 if problems else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
