"""The directory that stands for Azure.

    cluster.kubeconfig    of the cluster behind every declared one, as its administrator
    calls.jsonl           what was called that leaves no resource, in order
    resources/*.json      each resource that exists
    no-spot               while it exists, Azure has no spot node to give
    late-roles            how many more logins to the cluster find no role yet; may be missing

Files, because several processes share them: a plugin for each provider, and the test.
"""

import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

VARIABLE = "SLIPWAY_AZURE_DOUBLE"
"""Names the directory. Only tests set it."""


class Refused(Exception):
    """Azure would refuse; the text begins with its own code for it."""


@dataclass(frozen=True)
class Record:
    """A resource that exists: its inputs as declared, or as changed in the portal since."""

    id: str
    type: str
    inputs: dict[str, Any]
    outputs: dict[str, Any] = field(default_factory=dict)

    def changed(self, **inputs: Any) -> "Record":
        """Return the record with other values of some inputs."""
        return replace(self, inputs={**self.inputs, **inputs}, outputs={**self.outputs, **inputs})


@dataclass(frozen=True)
class Store:
    """Such a directory."""

    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "cluster.kubeconfig"

    @property
    def without_spot(self) -> Path:
        return self.directory / "no-spot"

    @property
    def late_roles(self) -> Path:
        return self.directory / "late-roles"

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What was called, in order: `action`, `id`, and its arguments."""
        file = self.directory / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def note(self, action: str, **arguments: Any) -> None:
        """Add to the calls, with the time in `at`."""
        with (self.directory / "calls.jsonl").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps({"action": action, "at": time.time(), **arguments}) + "\n")

    def all(self) -> Iterator[Record]:
        """Yield every resource that exists."""
        for file in sorted((self.directory / "resources").glob("*.json")):
            # Another process may have removed it since.
            with suppress(FileNotFoundError):
                yield Record(**json.loads(file.read_text()))

    def find(self, resource_id: str) -> Record | None:
        """Return the resource with an ID; None without."""
        try:
            return Record(**json.loads(self._file(resource_id).read_text()))
        except FileNotFoundError:
            return None

    def get(self, resource_id: str) -> Record:
        """Return the resource with an ID."""
        found = self.find(resource_id)
        if found is None:
            raise Refused(f"ResourceNotFound: there is no {resource_id}")
        return found

    def add(self, record: Record) -> None:
        """Create a resource."""
        if self.find(record.id) is not None:
            raise Refused(f"cannot create already existing resource {record.id!r}")
        parent = parent_of(record.id)
        if parent is not None and self.find(parent) is None:
            code = "ParentResourceNotFound" if "/providers/" in parent else "ResourceGroupNotFound"
            raise Refused(f"{code}: {record.id} would be in {parent}, which does not exist")
        self.put(record)

    def put(self, record: Record) -> None:
        """Write a resource as the record has it, whether it may be so or not."""
        file = self._file(record.id)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(record), indent=2))
        partial.replace(file)

    def remove(self, resource_id: str) -> None:
        """Remove a resource; one that does not exist is a success."""
        self._file(resource_id).unlink(missing_ok=True)

    def _file(self, resource_id: str) -> Path:
        # Azure ignores case in IDs.
        same = resource_id.lower()
        digest = hashlib.sha256(same.encode()).hexdigest()[:16]
        return self.directory / "resources" / f"{digest}-{same.rpartition('/')[2][:40]}.json"


def parent_of(resource_id: str) -> str | None:
    """Return the ID of what a resource is in; None for a subscription's own."""
    before, _, after = resource_id.rpartition("/providers/")
    parts = after.split("/")
    if before and len(parts) > 3:
        before = f"{before}/providers/{'/'.join(parts[:-2])}"
    # A storage account has its one blob service without a declaration.
    above = before.removesuffix("/blobServices/default")
    return above if "/resourceGroups/" in above else None
