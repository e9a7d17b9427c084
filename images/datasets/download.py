"""Downloads a file of a data set, which is verified afterwards: see `Dataset.problem`."""

import time
from pathlib import Path

from core.files import Cancelled
from images.build.runner import Reporter
from images.datasets.dataset import NotAvailable

CONNECT_LIMIT, READ_LIMIT, LIMIT = 5.0, 30.0, 1200.0
_CHUNK = 1 << 20


def download(url: str, target: Path, reporter: Reporter) -> None:
    """Write what `url` has to `target`.

    Args:
        url: Where it is.
        target: A file; its directory is made.
        reporter: Shows progress.

    Raises:
        NotAvailable: it can't be reached, or takes longer than `LIMIT` seconds.
        core.files.Cancelled: the user stopped the program.
    """
    import requests  # noqa: PLC0415 (whatever knows of data sets would load it)

    target.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        with (
            requests.get(url, timeout=(CONNECT_LIMIT, READ_LIMIT), stream=True) as response,
            target.open("wb") as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_content(_CHUNK):
                file.write(chunk)
                reporter.status(f"{url}: {file.tell() // 10**7 * 10} MB")
                if reporter.cancelled.is_set():
                    raise Cancelled(f"{url}: stopped")
                if time.monotonic() - began > LIMIT:
                    raise NotAvailable(f"{url} took longer than {LIMIT:.0f} s")
    except requests.RequestException as error:
        raise NotAvailable(f"{url}: {_root(error)}") from error


def _root(error: BaseException) -> BaseException:
    """Return what `error` comes from at last: "Name or service not known", not a pool's story."""
    while error.__context__ is not None:
        error = error.__context__
    return error
