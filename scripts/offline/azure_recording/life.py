"""The life of a resource in the recording."""

from collections.abc import Mapping
from typing import Any

from scripts.offline.azure_recording import differ, naming
from scripts.offline.azure_recording.catalog import served
from scripts.offline.azure_recording.nodes import follow
from scripts.offline.azure_recording.outputs import outputs, previewed
from scripts.offline.azure_recording.pools import keeping_count
from scripts.offline.azure_recording.recording import Record, Recording, changed
from scripts.offline.azure_recording.session import Session

Properties = dict[str, Any]


def create(
    session: Session, token: str, inputs: Properties, *, preview: bool
) -> tuple[str, Properties]:
    """Have a resource made; return its ID and outputs.

    Raises:
        NoAzure: outside of tests.
        Refused: it is there already, or what it would be in is not.
    """
    if preview:
        return "", previewed(token, inputs)
    kind = served(token)
    resource_id = naming.identity(kind, inputs, session.subscription)
    recording = session.lent(f"making {resource_id}")
    found = outputs(token, resource_id, inputs)
    recording.add(Record(resource_id, token, inputs, found))
    follow(recording, resource_id)
    return resource_id, found


def update(
    session: Session,
    token: str,
    resource_id: str,
    inputs: Mapping[str, Properties],
    *,
    preview: bool,
) -> Properties:
    """Have a resource changed in place; return its outputs.

    Args:
        session: Of the plugin.
        token: Its type.
        resource_id: Its ID.
        inputs: Those of last time, `old`, and of now, `new`.
        preview: Whether only to tell.

    Raises:
        NotChangeable: the service can't.
        NoAzure: outside of tests.
    """
    differ.refuse(served(token), inputs["old"], inputs["new"])
    if preview:
        return previewed(token, inputs["new"])
    recording = session.lent(f"changing {resource_id}")
    found = Record(resource_id, token, inputs["new"], outputs(token, resource_id, inputs["new"]))
    found = keeping_count(recording.find(resource_id), found)
    recording.put(found)
    recording.note("update", id=resource_id, type=token)
    follow(recording, resource_id)
    return found.outputs


def read(
    session: Session, resource_id: str, inputs: Properties
) -> tuple[Properties, Properties] | None:
    """Return a resource's inputs and outputs as they are; None when it is gone.

    Raises:
        NoAzure: outside of tests.
    """
    record = session.lent(f"reading {resource_id}").find(resource_id)
    if record is None:
        return None
    # What the program left to the service is none of its inputs.
    known = inputs or record.inputs
    return {key: record.inputs.get(key, value) for key, value in known.items()}, record.outputs


def delete(session: Session, resource_id: str) -> None:
    """Have a resource removed; one that is not there is a success.

    Raises:
        NoAzure: outside of tests.
        Refused: a lock keeps it.
    """
    recording = session.lent(f"removing {resource_id}")
    follow(recording, resource_id, leaving=True)
    recording.remove(resource_id)


def change_behind(recording: Recording, resource_id: str, **inputs: Any) -> None:
    """Change a resource as somebody else would, so that a refresh finds it."""
    record = recording.find(resource_id)
    if record is None:
        raise LookupError(resource_id)
    recording.put(changed(record, inputs))
    follow(recording, resource_id)
