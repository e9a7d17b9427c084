"""kube-controller-manager."""

from clusters.embedded import kubeconfig
from clusters.embedded.component import Component, Host, flags
from clusters.embedded.layout import Layout


def component(layout: Layout, host: Host) -> Component:
    """The controllers, each with its own service account; reachable from the node alone."""
    config = kubeconfig.path(layout, "controller-manager")
    return Component(
        name="kube-controller-manager",
        command=(
            host.path("kube-controller-manager"),
            *flags(
                kubeconfig=config,
                authentication_kubeconfig=config,
                authorization_kubeconfig=config,
                bind_address="127.0.0.1",
                tls_cert_file=layout.certificate("controller-manager"),
                tls_private_key_file=layout.key("controller-manager"),
                leader_elect=False,
                profiling=False,
                # Its controllers start one after the other, each with a few requests: with the
                # default of 20 a second, the first pod comes 3 s later.
                kube_api_qps=100,
                kube_api_burst=200,
                use_service_account_credentials=True,
                service_account_private_key_file=layout.key("service-account"),
                root_ca_file=layout.certificate("ca"),
                cluster_signing_cert_file=layout.certificate("ca"),
                cluster_signing_key_file=layout.key("ca"),
                requestheader_client_ca_file=layout.certificate("front-proxy-ca"),
            ),
        ),
        files={config: kubeconfig.by_reference(layout, "controller-manager")},
        reads=(
            layout.certificate("ca"),
            layout.key("ca"),
            layout.certificate("controller-manager"),
            layout.key("controller-manager"),
            layout.key("service-account"),
            layout.certificate("front-proxy-ca"),
        ),
        calls_api=True,
    )
