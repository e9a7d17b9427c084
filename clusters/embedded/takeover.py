"""Back up an older Kubernetes version's data before a newer version writes to it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from clusters.embedded import supervisor
from clusters.embedded.layout import Layout
from core import files, toolchain
from core.toolchain import numbers

OLDEST = "v1.34"
"""The oldest version whose data is accepted, also assumed if the version is not recorded."""


def older(layout: Layout) -> list[str]:
    """Return older versions that wrote the data, or raise `RuntimeError` if it can't be used."""
    if not (layout.directory / "etcd").exists():
        return []
    written = layout.written_by.read_text().split() if layout.written_by.exists() else [OLDEST]
    new = toolchain.tool("kube-apiserver").version
    if numbers(written[-1])[:2] > numbers(new)[:2] or numbers(written[0]) < numbers(OLDEST):
        raise RuntimeError(
            f"{layout.directory} contains data from Kubernetes {written[-1]}, but {new} accepts "
            f"only data from {OLDEST} up to its own minor version. Nothing was changed: run "
            "`make up` with the version of Slipway that created the cluster, or `make down`, which "
            "deletes all data"
        )
    return written if numbers(written[0])[:2] < numbers(new)[:2] else []


@contextmanager
def taken_over(layout: Layout) -> Iterator[None]:
    """Back up an older version's data before the cluster starts; errors say how to restore it."""
    written, new = older(layout), toolchain.tool("kube-apiserver").version
    data, copy = layout.directory / "etcd", layout.directory / f"etcd-{[*written, new][0]}"
    if len(written) == 1:  # with two, the newer version has started and may have changed the data
        supervisor.stop(layout, "kube-apiserver", "etcd")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(data, copy)
    files.write(layout.written_by, " ".join([*written[:1], new]), mode=0o600)
    try:
        yield
    except Exception as error:
        if not written:
            raise
        supervisor.stop(layout, "kube-apiserver", "etcd")
        raise RuntimeError(
            f"{error}\nKubernetes {new} did not start with the data from {written[0]}, which is "
            f"backed up in {copy}. `make up` tries again. To go back, run the following, then run "
            "`make up` with the version of Slipway that created the cluster:\n"
            f"  rm -r {data} && mv {copy} {data} && rm {layout.written_by}"
        ) from error
    files.write(layout.written_by, new, mode=0o600)
