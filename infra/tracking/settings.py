"""The `slipway:tracking` settings, for a server that shows runs during and after training."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic.dataclasses import dataclass

from core.fields import CONFIG, Memory, texts
from core.problem import Contradiction, contradiction
from core.validation import Consistent

KEY = "slipway:tracking"
NAME, PORT = "mlflow", 5000  # of the Service through which ranks and `make ui` reach the server
SERVER_URL = f"http://{NAME}:{PORT}"
MLFLOW_REQUESTS = {"cpu": "50m", "memory": "384Mi"}
POSTGRES_REQUESTS = {"cpu": "20m", "memory": "64Mi"}
Url = Annotated[str, texts(__file__)("url")]

_OF_A_POD = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Tracking(Consistent):
    """The `slipway:tracking` settings: the server that tracks runs.

    Args:
        kind: MLflow, Weights & Biases, or TensorBoard files among the files that a job keeps.
        url: URL of an existing server: MLflow (none is installed then), or Weights & Biases
            (default: wandb.ai).
        database: Database for the installed server: SQLite on its volume, or a separate PostgreSQL
            for many concurrent runs.
        size: Size of the server's volume, and of PostgreSQL's; it can be increased.
    """

    kind: Literal["mlflow", "wandb", "tensorboard"]
    url: Url | None = None
    database: Literal["sqlite", "postgresql"] = "sqlite"
    size: Memory = "10Gi"

    @property
    def is_installed(self) -> bool:
        """True if the stack installs the server."""
        return self.kind == "mlflow" and self.url is None

    @property
    def requests(self) -> Sequence[dict[str, str]]:
        """The resource requests of each of the server's pods."""
        if not self.is_installed:
            return ()
        return (MLFLOW_REQUESTS, *([POSTGRES_REQUESTS] if self.database == "postgresql" else []))

    @property
    def place(self) -> dict[str, str]:
        """The server's kind and URLs, in the form that `jobs.model.submission` expects."""
        if self.is_installed:
            return {"kind": self.kind, "url": SERVER_URL, "address": f"http://localhost:{PORT}"}
        if self.url is None:
            return {"kind": self.kind}
        address = self.url.rstrip("/")
        return {"kind": self.kind, "url": address, "address": address}

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield settings that do not apply to the kind, and a URL that pods can't reach."""
        if self.kind == "tensorboard" and self.url is not None:
            text = "is a server's address, but `kind: tensorboard` only writes files; remove it"
            yield contradiction(("url",), text, "kind")
        elif self.url is not None and urlsplit(self.url).hostname in _OF_A_POD:
            text = (
                "would be each pod's own address; set a URL that pods and browsers can reach, or "
                "remove it to install a server in the cluster"
            )
            yield contradiction(("url",), text)
        for name, default in (("database", "sqlite"), ("size", "10Gi")):
            if not self.is_installed and getattr(self, name) != default:
                text = "is for a server that `kind: mlflow` installs if no `url` is set; remove it"
                yield contradiction((name,), text, "kind", "url")
