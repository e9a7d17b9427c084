"""kube-apiserver."""

from pathlib import Path

from clusters.embedded import keys
from clusters.embedded.component import Component, Host, flags
from clusters.embedded.components import etcd
from clusters.embedded.layout import API_PORT, DNS_DOMAIN, SERVICES, Layout

# Both wait for progress reports that etcd sends from 3.4.31 and 3.5.13 on, and do not check: with
# Debian's 3.4.23 a watch without a resource version, as Python's client starts one, ends with
# "Too large resource version" wherever nothing has changed lately.
NEED_NEWER_ETCD = ("WatchList", "SizeBasedListCostEstimate")


def component(layout: Layout, host: Host) -> Component:
    """The API server: Node and RBAC authorization, nobody anonymous, secrets encrypted at rest."""
    credentials = _credentials(layout)
    return Component(
        name="kube-apiserver",
        command=(
            host.path("kube-apiserver"),
            *flags(
                bind_address=layout.node_address,
                advertise_address=layout.node_address,
                secure_port=API_PORT,
                etcd_servers=etcd.CLIENT_URL,
                service_cluster_ip_range=SERVICES,
                service_account_issuer=f"https://kubernetes.default.svc.{DNS_DOMAIN}",
                authorization_mode="Node,RBAC",
                anonymous_auth=False,
                # On top of the defaults, PodSecurity among them.
                enable_admission_plugins="NodeRestriction",
                allow_privileged=True,
                profiling=False,
                # The kubelet's certificate names its address, and no resolver knows its name.
                kubelet_preferred_address_types="InternalIP",
                feature_gates=",".join(f"{gate}=false" for gate in NEED_NEWER_ETCD),
                requestheader_allowed_names="front-proxy-client",
                requestheader_username_headers="X-Remote-User",
                requestheader_group_headers="X-Remote-Group",
                requestheader_extra_headers_prefix="X-Remote-Extra-",
                **credentials,
            ),
        ),
        reads=tuple(credentials.values()),
    )


def _credentials(layout: Layout) -> dict[str, Path]:
    return {
        "client_ca_file": layout.certificate("ca"),
        "tls_cert_file": layout.certificate("apiserver"),
        "tls_private_key_file": layout.key("apiserver"),
        "etcd_cafile": layout.certificate("etcd-ca"),
        "etcd_certfile": layout.certificate("apiserver-etcd-client"),
        "etcd_keyfile": layout.key("apiserver-etcd-client"),
        "kubelet_certificate_authority": layout.certificate("ca"),
        "kubelet_client_certificate": layout.certificate("apiserver-kubelet-client"),
        "kubelet_client_key": layout.key("apiserver-kubelet-client"),
        "requestheader_client_ca_file": layout.certificate("front-proxy-ca"),
        "proxy_client_cert_file": layout.certificate("front-proxy-client"),
        "proxy_client_key_file": layout.key("front-proxy-client"),
        "service_account_key_file": layout.pki / "service-account.pub",
        "service_account_signing_key_file": layout.key("service-account"),
        "encryption_provider_config": keys.encryption_config(layout),
    }
