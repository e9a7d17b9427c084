"""The programs that make up the node, as one table. Nothing here touches the machine."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clusters import embedded
from clusters.embedded import component_config, credentials
from clusters.embedded.host import Host
from clusters.embedded.layout import API_PORT, DNS_DOMAIN, SERVICES, Layout
from core.paths import CHECKOUT

_ETCD_CLIENTS, _ETCD_PEERS = "https://127.0.0.1:2379", "https://127.0.0.1:2380"
_NEED_NEWER_ETCD = ("WatchList", "SizeBasedListCostEstimate")
"""Both wait for progress reports that etcd sends from 3.4.31 and 3.5.13 on, and do not check: with
Debian's 3.4.23 a watch without a resource version, as Python's client starts one, ends with
"Too large resource version" wherever nothing has changed lately."""


@dataclass(frozen=True)
class Component:
    """One program that is kept running.

    Args:
        name: What it and its log are called.
        command: The program and its arguments.
        files: Configuration that it reads, by path; written before it starts.
        reads: Credentials that it reads when it starts: it is started again when they change.
        environment: Variables of its own, beside those that all components share.
        calls_api: Whether it is a client of the API server, which is then started before it: one
            that finds none tries again after seconds.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[Path, str] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    calls_api: bool = False


def flags(**values: object) -> tuple[str, ...]:
    """Return command line flags: `flags(leader_elect=False)` is `("--leader-elect=false",)`."""
    return tuple(f"--{name.replace('_', '-')}={_flag(value)}" for name, value in values.items())


def components(layout: Layout, host: Host) -> list[Component]:
    """Return every program of the node, in no order but that of `Component.calls_api`."""
    certificate, key = layout.certificate, layout.key
    authority, config = certificate("ca"), layout.config

    def pair(user: str) -> tuple[Path, Path]:
        return certificate(user), key(user)

    def kubeconfig(user: str) -> dict[Path, str]:
        return {credentials.kubeconfig_path(layout, user): credentials.by_reference(layout, user)}

    def of_controller(user: str) -> dict[str, object]:
        """Flags of one that answers on the node's loopback alone and is the only one."""
        own = credentials.kubeconfig_path(layout, user)
        return {
            "kubeconfig": own,
            "authentication_kubeconfig": own,
            "authorization_kubeconfig": own,
            "bind_address": "127.0.0.1",
            "tls_cert_file": certificate(user),
            "tls_private_key_file": key(user),
            "leader_elect": False,
            "profiling": False,
        }

    of_apiserver = {
        "client_ca_file": authority,
        "tls_cert_file": certificate("apiserver"),
        "tls_private_key_file": key("apiserver"),
        "etcd_cafile": certificate("etcd-ca"),
        "etcd_certfile": certificate("apiserver-etcd-client"),
        "etcd_keyfile": key("apiserver-etcd-client"),
        "kubelet_certificate_authority": authority,
        "kubelet_client_certificate": certificate("apiserver-kubelet-client"),
        "kubelet_client_key": key("apiserver-kubelet-client"),
        "requestheader_client_ca_file": certificate("front-proxy-ca"),
        "proxy_client_cert_file": certificate("front-proxy-client"),
        "proxy_client_key_file": key("front-proxy-client"),
        "service_account_key_file": layout.pki / "service-account.pub",
        "service_account_signing_key_file": key("service-account"),
        "encryption_provider_config": credentials.encryption_config(layout),
    }
    return [
        # One member, reached over the node's loopback with certificates of an authority of its own.
        Component(
            name="etcd",
            command=(
                host.path("etcd"),
                *flags(
                    name=layout.node,
                    data_dir=layout.directory / "etcd",
                    listen_client_urls=_ETCD_CLIENTS,
                    advertise_client_urls=_ETCD_CLIENTS,
                    listen_peer_urls=_ETCD_PEERS,
                    initial_advertise_peer_urls=_ETCD_PEERS,
                    initial_cluster=f"{layout.node}={_ETCD_PEERS}",
                    client_cert_auth=True,
                    trusted_ca_file=certificate("etcd-ca"),
                    cert_file=certificate("etcd"),
                    key_file=key("etcd"),
                    peer_client_cert_auth=True,
                    peer_trusted_ca_file=certificate("etcd-ca"),
                    peer_cert_file=certificate("etcd"),
                    peer_key_file=key("etcd"),
                    # One member elects itself: the defaults are for a network between several.
                    heartbeat_interval=50,
                    election_timeout=250,
                    logger="zap",
                    log_outputs="stderr",
                    log_level="warn",
                ),
            ),
            reads=(certificate("etcd-ca"), *pair("etcd")),
        ),
        # Node and RBAC authorization, no anonymous access, secrets encrypted at rest.
        Component(
            name="kube-apiserver",
            command=(
                host.path("kube-apiserver"),
                *flags(
                    bind_address=layout.node_address,
                    advertise_address=layout.node_address,
                    secure_port=API_PORT,
                    etcd_servers=_ETCD_CLIENTS,
                    service_cluster_ip_range=SERVICES,
                    service_account_issuer=f"https://kubernetes.default.svc.{DNS_DOMAIN}",
                    authorization_mode="Node,RBAC",
                    anonymous_auth=False,
                    # On top of the defaults, PodSecurity among them.
                    enable_admission_plugins="NodeRestriction",
                    allow_privileged=True,
                    profiling=False,
                    # The kubelet's certificate names its address; no resolver knows its name.
                    kubelet_preferred_address_types="InternalIP",
                    feature_gates=",".join(f"{gate}=false" for gate in _NEED_NEWER_ETCD),
                    requestheader_allowed_names="front-proxy-client",
                    requestheader_username_headers="X-Remote-User",
                    requestheader_group_headers="X-Remote-Group",
                    requestheader_extra_headers_prefix="X-Remote-Extra-",
                    **of_apiserver,
                ),
            ),
            reads=tuple(of_apiserver.values()),
        ),
        # With its CRI plugin; runc and its shim are found on PATH.
        Component(
            name="containerd",
            command=(host.path("containerd"), *flags(config=config / "containerd.toml")),
            files={
                config / "containerd.toml": component_config.containerd(layout, host),
                layout.cni / "10-slipway.conflist": component_config.pod_network(layout),
            },
        ),
        # Its root is the default one, which is private to the node's mounts.
        Component(
            name="kubelet",
            command=(
                host.path("kubelet"),
                *flags(
                    config=config / "kubelet.yaml",
                    kubeconfig=credentials.kubeconfig_path(layout, "kubelet-client"),
                    hostname_override=layout.node,
                    node_ip=layout.node_address,
                ),
            ),
            files={
                config / "kubelet.yaml": component_config.kubelet(layout),
                **kubeconfig("kubelet-client"),
            },
            reads=(authority, *pair("kubelet"), *pair("kubelet-client")),
            calls_api=True,
        ),
        # Its controllers have a service account each.
        Component(
            name="kube-controller-manager",
            command=(
                host.path("kube-controller-manager"),
                *flags(
                    **of_controller("controller-manager"),
                    # Its controllers start one after the other, each with a few requests: with the
                    # default of 20 a second, the first pod is delayed by 3 s.
                    kube_api_qps=100,
                    kube_api_burst=200,
                    use_service_account_credentials=True,
                    service_account_private_key_file=key("service-account"),
                    root_ca_file=authority,
                    cluster_signing_cert_file=authority,
                    cluster_signing_key_file=key("ca"),
                    requestheader_client_ca_file=certificate("front-proxy-ca"),
                ),
            ),
            files=kubeconfig("controller-manager"),
            reads=(
                *pair("ca"),
                *pair("controller-manager"),
                key("service-account"),
                certificate("front-proxy-ca"),
            ),
            calls_api=True,
        ),
        Component(
            name="kube-scheduler",
            command=(host.path("kube-scheduler"), *flags(**of_controller("scheduler"))),
            files=kubeconfig("scheduler"),
            reads=(authority, *pair("scheduler")),
            calls_api=True,
        ),
        # In nftables mode; it runs the `nft` program.
        Component(
            name="kube-proxy",
            command=(host.path("kube-proxy"), *flags(config=config / "kube-proxy.yaml")),
            files={
                config / "kube-proxy.yaml": component_config.kube_proxy(layout),
                **kubeconfig("kube-proxy"),
            },
            reads=(authority, *pair("kube-proxy")),
            calls_api=True,
        ),
        # Runs in the Python environment and from the checkout that started the cluster.
        Component(
            name="volume-provisioner",
            command=(
                # By its real place: the same one however this process was started.
                str(Path(sys.prefix).resolve() / "bin" / "python"),
                "-m",
                "clusters.embedded.provisioner",
                *flags(
                    kubeconfig=credentials.kubeconfig_path(layout, "provisioner"),
                    volumes=layout.volumes,
                    node=layout.node,
                ),
            ),
            files=kubeconfig("provisioner"),
            reads=(
                authority,
                *pair("provisioner"),
                # Not imported for its name: it loads the API classes of the kubernetes client.
                Path(embedded.__path__[0], "provisioner.py"),
            ),
            environment={"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"},
            calls_api=True,
        ),
    ]


def _flag(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
