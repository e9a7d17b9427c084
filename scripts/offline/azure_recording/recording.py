"""The directory in which a test has the double record: what Azure would hold, and what was asked.

    cluster.kubeconfig    of the cluster that stands behind every declared one; with all rights
    calls.jsonl           each thing that was asked, in order
    resources/*.json      each resource that is there

Files, because several processes work on them: a plugin for each provider, and the test.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "SLIPWAY_AZURE_RECORDING"
"""Names the directory. Only tests set it."""


class Refused(Exception):
    """Azure would refuse; the text begins with its own code for it."""


@dataclass(frozen=True)
class Record:
    """A resource that is there.

    Args:
        id: In Azure.
        type: As the SDK calls it.
        inputs: What it was asked to be, or has been changed to behind the program's back.
        outputs: What it has besides.
    """

    id: str
    type: str
    inputs: dict[str, Any]
    outputs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """Such a directory."""

    directory: Path

    @classmethod
    def lent(cls) -> "Recording | None":
        """Return the one that a test has lent; None outside of tests."""
        given = os.environ.get(VARIABLE)
        return None if given is None else cls(Path(given))

    @property
    def kubeconfig(self) -> Path:
        """Of the cluster that stands behind."""
        return self.directory / "cluster.kubeconfig"

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What was asked, in order: `action`, `id` or `function`, and what with."""
        file = self.directory / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def note(self, action: str, **told: Any) -> None:
        """Add to the calls."""
        with self._locked(), (self.directory / "calls.jsonl").open("a") as file:
            file.write(json.dumps({"action": action, **told}) + "\n")

    def all(self) -> Iterator[Record]:
        """Yield every resource that is there."""
        for file in sorted((self.directory / "resources").glob("*.json")):
            # Another process may have removed it since.
            with suppress(FileNotFoundError):
                yield Record(**json.loads(file.read_text()))

    def find(self, resource_id: str) -> Record | None:
        """Return the resource with that ID; None without."""
        try:
            return Record(**json.loads(self._file(resource_id).read_text()))
        except FileNotFoundError:
            return None

    def add(self, record: Record) -> None:
        """Have a resource made.

        Raises:
            Refused: it is there already, or what it would be in is not.
        """
        if self.find(record.id) is not None:
            raise Refused(f"cannot create already existing resource {record.id!r}")
        parent = parent_of(record.id)
        if parent is not None and self.find(parent) is None:
            code = "ParentResourceNotFound" if "/providers/" in parent else "ResourceGroupNotFound"
            raise Refused(f"{code}: {record.id} would be in {parent}, which is not there")
        self.put(record)
        self.note("create", id=record.id, type=record.type)

    def put(self, record: Record) -> None:
        """Have a resource be as `record` says, without asking whether it may."""
        file = self._file(record.id)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(record), indent=2))
        partial.replace(file)

    def remove(self, resource_id: str) -> None:
        """Have a resource removed, and what is in it.

        Raises:
            Refused: a lock keeps it.
        """
        for lock in self.all():
            if "/locks/" in lock.id.lower() and lock.id != resource_id:
                scope = lock.id.partition("/providers/Microsoft.Authorization/locks/")[0]
                if _is_in(resource_id, scope):
                    raise Refused(f"ScopeLocked: {lock.id} keeps {resource_id} from being deleted")
        for record in list(self.all()):
            if _is_in(record.id, resource_id):
                self._file(record.id).unlink(missing_ok=True)
        self.note("delete", id=resource_id)

    def _file(self, resource_id: str) -> Path:
        # Azure takes no notice of case in an ID.
        digest = hashlib.sha256(resource_id.lower().encode()).hexdigest()[:16]
        last = resource_id.rpartition("/")[2]
        return self.directory / "resources" / f"{digest}-{last[:40]}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.directory / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def parent_of(resource_id: str) -> str | None:
    """Return the ID of what the resource is in; None for a subscription's own."""
    before, _, after = resource_id.rpartition("/providers/")
    if not before:
        return None
    parts = after.split("/")
    if len(parts) > 3:
        above = "/".join(parts[:-2])
        # A storage account has its one blob service without anybody's making it.
        return f"{before}/providers/{above}".removesuffix("/blobServices/default")
    return before if "/resourceGroups/" in before else None


def _is_in(resource_id: str, place: str) -> bool:
    here, there = resource_id.lower(), place.lower()
    return here == there or here.startswith(f"{there}/")


def changed(record: Record, inputs: Mapping[str, Any]) -> Record:
    """Return `record` with some of its properties changed, as by somebody in Azure's portal."""
    return Record(
        record.id,
        record.type,
        {**record.inputs, **inputs},
        {**record.outputs, **inputs},
    )
