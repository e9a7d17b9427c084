"""Write a run's files to standard output as a tar archive, for `make fetch`.

    python3 -m slipway_trainer.tar file:///opt/kept/outputs/mine/mine-20261124-101500-ab12

artifacts.json, the list of files, comes before the files it lists; if there is no list, all files
are written.
"""

import json
import re
import sys
import tarfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from slipway_trainer.agent.artifacts import LIST, described, store_of
from slipway_trainer.training import report

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def write(url: str, out: IO[bytes]) -> None:
    """Write the files below `url` to `out`; raise an error if there are none."""
    store, root = store_of(url)
    root, count = root.rstrip("/"), 0
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name in _names(store, root):
            path = f"{root}/{name}"
            if not store.isfile(path):
                print(f"{name} no longer exists", file=sys.stderr)
                continue
            member = tarfile.TarInfo(name)
            member.size = store.info(path)["size"]
            with store.open(path, "rb") as file:
                tar.addfile(member, file)
            count += 1
    if count == 0:
        raise FileNotFoundError(f"there are no files under {url}")


def _names(store: "AbstractFileSystem", root: str) -> Iterator[str]:
    """Yield the paths of a run's files below `root`: each replica's list, then its files."""
    paths = sorted(path[len(root) + 1 :] for path in store.find(root))
    if LIST not in paths or not _listed(store, f"{root}/{LIST}"):
        yield from paths
        return
    for name in paths:
        if match := re.fullmatch(rf"(replica-[^/]*/)?{re.escape(LIST)}", name):
            yield name
            yield from (f"{match[1] or ''}{each}" for each in _listed(store, f"{root}/{name}"))


def _listed(store: "AbstractFileSystem", path: str) -> list[str]:
    """Return the paths listed in the file `path`; empty if the program itself wrote that file."""
    try:
        return [name for name, each in json.loads(store.cat_file(path)).items() if "sha256" in each]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


if __name__ == "__main__":
    try:
        write(sys.argv[1], sys.stdout.buffer)
    except Exception as error:  # noqa: BLE001 - each store raises its own errors
        sys.exit(described(error))
    report.end(0)  # a storage client's threads can crash a regular exit
