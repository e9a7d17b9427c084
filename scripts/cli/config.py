"""What a stack's file asks for, as far as that can be told without a cluster."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from core.paths import CHECKOUT
from infra import settings
from infra.settings import Settings
from scripts.cli.files import own, template


def asked(stack: str, root: Path = CHECKOUT) -> Settings | None:
    """The settings in the person's file, or in the committed one; None when they are wrong.

    What is wrong with them, `up` and `preview` say.
    """
    file = own(stack, root) if own(stack, root).exists() else template(stack, root)
    try:
        config = yaml.safe_load(file.read_text())["config"]
        return settings.parse(_engine(config), stack)
    except (OSError, yaml.YAMLError, KeyError, TypeError, settings.SettingsError):
        return None


def _engine(config: Mapping[str, Any]) -> dict[str, str]:
    """A file's settings as Pulumi hands them to the program: text, or JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()
    }
