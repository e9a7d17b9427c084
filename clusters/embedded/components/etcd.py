"""etcd: the cluster's database."""

from clusters.embedded.component import Component, Host, flags
from clusters.embedded.layout import Layout

CLIENT_URL = "https://127.0.0.1:2379"
PEER_URL = "https://127.0.0.1:2380"


def component(layout: Layout, host: Host) -> Component:
    """One member, reached over the node's loopback with certificates of etcd's own authority."""
    certificate, key = layout.certificate("etcd"), layout.key("etcd")
    authority = layout.certificate("etcd-ca")
    return Component(
        name="etcd",
        command=(
            host.path("etcd"),
            *flags(
                name=layout.node,
                data_dir=layout.directory / "etcd",
                listen_client_urls=CLIENT_URL,
                advertise_client_urls=CLIENT_URL,
                listen_peer_urls=PEER_URL,
                initial_advertise_peer_urls=PEER_URL,
                initial_cluster=f"{layout.node}={PEER_URL}",
                client_cert_auth=True,
                trusted_ca_file=authority,
                cert_file=certificate,
                key_file=key,
                peer_client_cert_auth=True,
                peer_trusted_ca_file=authority,
                peer_cert_file=certificate,
                peer_key_file=key,
                # One member elects itself: the defaults are for a network between several.
                heartbeat_interval=50,
                election_timeout=250,
                logger="zap",
                log_outputs="stderr",
                log_level="warn",
            ),
        ),
        reads=(authority, certificate, key),
    )
