"""Copies the data of an older Kubernetes before a newer one writes to it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from clusters.embedded import supervisor
from clusters.embedded.layout import Layout
from core import files, toolchain
from core.toolchain import numbers

OLDEST = "v1.34"
"""The oldest version whose data is accepted, and the version of data without a record."""


def older(layout: Layout) -> list[str]:
    """Return the older minor versions that wrote the data; `RuntimeError` if it is unsupported."""
    if not (layout.directory / "etcd").exists():
        return []
    written = layout.written_by.read_text().split() if layout.written_by.exists() else [OLDEST]
    new = toolchain.tool("kube-apiserver").version
    if numbers(written[-1])[:2] > numbers(new)[:2] or numbers(written[0]) < numbers(OLDEST):
        raise RuntimeError(
            f"{layout.directory} has data of Kubernetes {written[-1]}, and {new} takes over "
            f"{OLDEST} to its own minor version. Nothing has changed: run `make up` with the "
            "Slipway that made the cluster, or `make down`, which removes it with its data"
        )
    return written if numbers(written[0])[:2] < numbers(new)[:2] else []


@contextmanager
def taken_over(layout: Layout) -> Iterator[None]:
    """Copy an older version's data before the cluster starts; an error says how to go back."""
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
            f"{error}\nKubernetes {new} did not come up on the data of {written[0]}, of which "
            f"{copy} is a copy. `make up` tries again. To go back, run `make up` with the Slipway "
            f"that made it, after:\n  rm -r {data} && mv {copy} {data} && rm {layout.written_by}"
        ) from error
    files.write(layout.written_by, new, mode=0o600)
