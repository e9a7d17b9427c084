"""A server on loopback that answers as S3 does: moto's, on a port that it prints.

Google's storage has the same interface in what is used here, its XML API, but for the login: what
comes with none of Amazon's gets one. https://docs.cloud.google.com/storage/docs/interoperability
"""

from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import (  # type: ignore[import-not-found]
    DomainDispatcherApplication,
    create_backend_app,
)
from werkzeug.serving import make_server  # type: ignore[import-not-found]

_LOGIN = (
    "AWS4-HMAC-SHA256 Credential=slipway/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, "
    "Signature=0"
)
_moto = DomainDispatcherApplication(create_backend_app)


def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request."""
    if not environ.get("HTTP_AUTHORIZATION", "").startswith("AWS4"):
        environ["HTTP_AUTHORIZATION"] = _LOGIN
    answered: Iterable[bytes] = _moto(environ, start)
    return answered


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, answer, threaded=True)
    print(f"listening on http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()
