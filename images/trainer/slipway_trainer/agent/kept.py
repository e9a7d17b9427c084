"""Keeps the files of a job's last runs where its stack keeps all jobs' files, and no others.

    <url>/<run id>/     what a run left
    <url>/succeeded     the id of the last run that ended well

Two runs stay: the last one, and the last one that ended well, which is often the same.
"""

from contextlib import suppress

from slipway_trainer.agent.artifacts import time_limit

SUCCEEDED = "succeeded"
_REACH_SECONDS = 30
"""A store's client may try for many minutes, which no run that has ended is held up for."""


def reach(url: str, seconds: float = _REACH_SECONDS) -> None:
    """Do nothing when the store of `url` answers.

    Raises:
        TimeoutError: it does not within so many seconds.
        Exception: whatever the store's client raises.
    """
    from fsspec import url_to_fs  # noqa: PLC0415 - takes 0.1 s, and most replicas keep nothing

    with time_limit(seconds, f"reaching {url}"):
        store, root = url_to_fs(url)
        store.exists(root)


def prune(url: str, run_id: str, *, is_success: bool) -> list[str]:
    """Note how the run that has just been copied to `url` ended, and remove those before it.

    Args:
        url: Of the job's runs, which fsspec knows.
        run_id: Of the run.
        is_success: Whether its program ended well.

    Returns:
        The ids of the runs whose files were removed.

    Raises:
        Exception: whatever the store's client raises; what is to stay is never removed.
    """
    from fsspec import url_to_fs  # noqa: PLC0415 - takes 0.1 s, and most replicas keep nothing

    store, root = url_to_fs(url)
    note = f"{root}/{SUCCEEDED}"
    if is_success:
        store.pipe_file(note, run_id.encode())
    store.invalidate_cache()
    stays = {run_id}
    if store.exists(note):
        stays.add(store.cat_file(note).decode().strip())
    removed = []
    for entry in store.ls(root, detail=True):
        name = entry["name"].rstrip("/").rpartition("/")[2]
        if entry["type"] == "directory" and name not in stays:
            with suppress(FileNotFoundError):  # another worker of an elastic job was quicker
                store.rm(entry["name"], recursive=True)
            removed.append(name)
    return removed
