"""The volume provisioner, a program of ours: see `clusters.embedded.provisioner`."""

import sys
from pathlib import Path

from clusters import embedded
from clusters.embedded import kubeconfig
from clusters.embedded.component import Component, Host, flags
from clusters.embedded.layout import Layout
from core.paths import CHECKOUT


def component(layout: Layout, host: Host) -> Component:  # noqa: ARG001 (every component's shape)
    """Runs in the Python environment and from the checkout that started the cluster."""
    config = kubeconfig.path(layout, "provisioner")
    return Component(
        name="volume-provisioner",
        command=(
            # By its real place: the same one however this process was started.
            str(Path(sys.prefix).resolve() / "bin" / "python"),
            "-m",
            "clusters.embedded.provisioner",
            *flags(kubeconfig=config, volumes=layout.volumes, node=layout.node),
        ),
        files={config: kubeconfig.by_reference(layout, "provisioner")},
        reads=(
            layout.certificate("ca"),
            layout.certificate("provisioner"),
            layout.key("provisioner"),
            # Not imported for their names: they load the API classes of the kubernetes client.
            *(Path(embedded.__path__[0], name) for name in ("provisioner.py", "volumes.py")),
        ),
        environment={"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"},
        calls_api=True,
    )
