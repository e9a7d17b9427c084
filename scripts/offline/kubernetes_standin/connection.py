"""Whether the configured cluster can be reached, asked anew until it can."""

import threading
import time

from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.kubeconfig import Kubeconfig
from scripts.offline.kubernetes_standin.settings import Settings
from scripts.offline.kubernetes_standin.transport import Refusal, Transport, Unreachable

_ASK_AGAIN_SECONDS = 2.0


class Connection:
    """The way to the cluster of one provider.

    The engine starts a provider from its state before a stopped cluster is started again, so
    "unreachable" is never the last word.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._cluster: Cluster | None = None
        self._problem = ""
        self._asked = float("-inf")
        self.namespace = settings.namespace or "default"

    def cluster(self) -> Cluster:
        """Return the cluster.

        Raises:
            Unreachable: the kubeconfig is unusable, or the API server does not answer.
        """
        with self._lock:
            if self._cluster is None:
                if time.monotonic() - self._asked >= _ASK_AGAIN_SECONDS:
                    self._connect()
                    self._asked = time.monotonic()
                if self._cluster is None:
                    raise Unreachable(
                        f"configured Kubernetes cluster is unreachable: {self._problem}"
                    )
            return self._cluster

    def _connect(self) -> None:
        settings = self._settings
        try:
            kubeconfig = Kubeconfig.load(settings.kubeconfig, settings.context, settings.cluster)
            transport = Transport(kubeconfig.client_configuration())
            transport.request("GET", "/version")
        except (ValueError, Unreachable) as error:
            self._problem = str(error)
        except Refusal as refusal:
            self._problem = f"the API server refused to tell its version: {refusal}"
        else:
            self.namespace = settings.namespace or kubeconfig.namespace
            self._cluster = Cluster(transport)
