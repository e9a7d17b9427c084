"""A job's own script as an immutable ConfigMap. Pure; `jobs.sources` reads the files."""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from core.manifests import MANAGED_BY, Manifest

_LONGEST_KEY = 200


@dataclass(frozen=True)
class Script:
    """The files of a job's script, by their path in its folder; `entry` is the one to start."""

    job: str
    entry: str
    files: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The ConfigMap's name, which changes with the files: an existing ConfigMap can't."""
        digest = hashlib.sha256(self.entry.encode())
        for path, content in sorted(self.files.items()):
            digest.update(f"\0{path}\0{len(content)}\0".encode() + content)
        return f"{self.job}-script-{digest.hexdigest()[:10]}"

    @property
    def items(self) -> dict[str, str]:
        """Each path by its key in the ConfigMap: keys know no folders."""
        items: dict[str, str] = {}
        for path in sorted(self.files):
            plain = re.sub(r"[^-._a-zA-Z0-9]", "_", path)[-_LONGEST_KEY:]
            number = sum(key == plain or key.startswith(f"{plain}.") for key in items)
            items[f"{plain}.{number}" if plain in items else plain] = path
        return items

    @property
    def sources(self) -> dict[str, str]:
        """The Python files among them, by their path."""
        python = (path for path in self.files if path.endswith(".py"))
        return {path: self.files[path].decode(errors="replace") for path in python}

    def config_map(self, namespace: str) -> Manifest:
        """Return the ConfigMap: as text, which reads in a preview, what may travel as such."""
        data, binary = {}, {}
        for key, path in self.items.items():
            content = self.files[path]
            text = content.decode(errors="replace")
            if text.encode() == content and "\0" not in text:
                data[key] = text
            else:
                binary[key] = base64.b64encode(content).decode()
        contents = {"data": data, "binaryData": binary}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": namespace, "labels": dict(MANAGED_BY)},
            "immutable": True,
            **{name: files for name, files in contents.items() if files},
        }
