"""`make import`: convert the jobs in a Kubernetes YAML file to `slipway:jobs` entries."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from jobs.imported import Entry, imported
from scripts.cli.config import jobs_of, own
from scripts.cli.terminal import CommandError, echo


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes strings that other YAML parsers might read as numbers or booleans."""


_LIKE_A_NUMBER = re.compile(r"([-+]?[.\d][\d_.,:eExXoa-fA-F+-]*|[yYnN])$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _LIKE_A_NUMBER, None)


def show(stack: str, file: str) -> int:
    """Print `slipway:jobs` entries for a file's jobs; list on stderr what could not be imported."""
    entries: dict[str, Entry] = {}
    for document in documents(file):
        metadata = document.get("metadata")
        called = metadata.get("name", "") if isinstance(metadata, dict) else ""
        try:
            name, entry, notes = imported(document)
        except ValueError as error:
            echo(f"{document.get('kind')} {called} was not imported: {error}")
            continue
        if name in {*entries, *jobs_of(stack)}:
            notes.append(f"another job also has the name {name}; rename one of them")
        entries.setdefault(name, entry)
        what = "imported, except:" if notes else "imported"
        echo("\n  ".join([f"{document['kind']} {called} is {what}", *notes]))
    if not entries:
        raise CommandError(f"{file} does not contain a job that can be imported.")
    print(as_yaml({"config": {"slipway:jobs": entries}}), end="")
    echo(f"Add this to slipway:jobs in {own(stack).name}, then run: make preview STACK={stack}")
    return 0


def documents(file: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a file, unpacking Lists; raise `CommandError` if it can't be read."""
    try:
        text = Path(file).read_text()
        if "{{" in text:
            raise CommandError(f"{file} is a Helm template; import the output of `helm template`.")
        # Dates are read as strings, as Kubernetes does.
        parsed = [*yaml.load_all(text, yaml.CSafeLoader)]
        contents = json.loads(json.dumps(parsed, default=str))
    except (OSError, yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise CommandError(f"make import FILE={file}: the file can't be read: {reason}.") from error
    for document in contents:
        listed = document.get("items") if isinstance(document, dict) else None
        for each in listed if isinstance(listed, list) else [document]:
            if isinstance(each, dict):
                yield each


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML that all parsers read the same way."""
    # PyYAML reads a U+0085 as a blank, unless it is escaped.
    is_safe = "\x85" not in json.dumps(document, ensure_ascii=False)
    options: Any = {"sort_keys": False, "allow_unicode": is_safe, "width": 1000}
    return str(yaml.dump(document, Dumper=_Dumper, default_flow_style=None, **options))
