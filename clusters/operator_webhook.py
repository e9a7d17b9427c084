"""Whether an operator's webhook checks PyTorchJobs: it is tried, and none is made."""

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from core.kube import Request, api_message, ask

_LIMIT_SECONDS = 5


def judges(api: client.ApiClient, namespace: str) -> bool:
    """Return whether a webhook refuses a PyTorchJob that nothing else refuses, and a good one not.

    Raises:
        ApiException: the good one is refused, or the other by something else.
    """
    _try(api, namespace, container="pytorch")
    try:
        _try(api, namespace, container="not-pytorch")
    except ApiException as error:
        if "denied the request" not in api_message(error):
            raise
        return True
    return False


def _try(api: client.ApiClient, namespace: str, *, container: str) -> None:
    """Try a PyTorchJob that the CRD allows; the webhook wants a container named pytorch."""
    template = {"spec": {"containers": [{"name": container, "image": "readiness-probe"}]}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "readiness-probe"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
    }
    path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs"
    ask(api, Request("POST", path, {"dryRun": "All"}, job), limit=_LIMIT_SECONDS)
