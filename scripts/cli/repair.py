"""Puts right what a killed Pulumi leaves half-written in its file backend.

It writes a file X as `X.TIME.tmp`, then X's attributes as `X.attrs`, and then renames the first to
X (gocloud.dev/blob/fileblob). So a killed process never leaves half a state, but

* a `.tmp` among a stack's locks, which Pulumi takes for one more lock and can't read;
* an empty `X.attrs`, with which it can't read X.

A machine that loses power may leave an empty X as well: the one before it is kept as `X.bak`.
"""

import json
import shutil
import time
from pathlib import Path

from scripts.cli.backend import bookkeeping, lock_directory, state_file

_WRITING_SECONDS = 2.0
"""Nobody takes as long for one of these files: what is half-written then stays so."""


def mend(stack: str) -> list[Path]:
    """Remove what is half-written of a stack's files, and return what that was.

    It waits until a file that somebody may be writing just now is whole, or old enough.
    """
    if any(_age(file) < _WRITING_SECONDS for file in _torn(stack)):
        time.sleep(_WRITING_SECONDS)
    mended = _torn(stack)
    for file in mended:
        file.unlink(missing_ok=True)
    state = state_file(stack)
    backup = state.with_name(f"{state.name}.bak")
    if state in mended:
        shutil.copyfile(backup, state)
    return mended


def _torn(stack: str) -> list[Path]:
    locks, state = lock_directory(stack), state_file(stack)
    parts = [*locks.glob("*.tmp"), *state.parent.glob(f"{state.name}.*tmp")]
    attributes = [
        *locks.glob("*.attrs"),
        *state.parent.glob(f"{state.name}*.attrs"),
        bookkeeping("meta.yaml.attrs"),
    ]
    documents = [*attributes, *locks.glob("*.json")]
    if _is_document(state.with_name(f"{state.name}.bak")):
        documents.append(state)
    return [*parts, *(file for file in documents if file.exists() and not _is_document(file))]


def _is_document(file: Path) -> bool:
    """Whether it is there and whole."""
    try:
        json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return True


def _age(file: Path) -> float:
    """Seconds since it was written; a file that has gone meanwhile is new."""
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0
