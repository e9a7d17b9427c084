"""kube-scheduler."""

from clusters.embedded import kubeconfig
from clusters.embedded.component import Component, Host, flags
from clusters.embedded.layout import Layout


def component(layout: Layout, host: Host) -> Component:
    """The scheduler; reachable from the node alone."""
    config = kubeconfig.path(layout, "scheduler")
    return Component(
        name="kube-scheduler",
        command=(
            host.path("kube-scheduler"),
            *flags(
                kubeconfig=config,
                authentication_kubeconfig=config,
                authorization_kubeconfig=config,
                bind_address="127.0.0.1",
                tls_cert_file=layout.certificate("scheduler"),
                tls_private_key_file=layout.key("scheduler"),
                leader_elect=False,
                profiling=False,
            ),
        ),
        files={config: kubeconfig.by_reference(layout, "scheduler")},
        reads=(
            layout.certificate("ca"),
            layout.certificate("scheduler"),
            layout.key("scheduler"),
        ),
        calls_api=True,
    )
