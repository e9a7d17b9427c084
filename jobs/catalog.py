"""The demos of catalog.yaml."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from jobs.spec import TrainingJob

DECLARED: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
"""By name, each demo's fields as a stack's file has them."""

_JOB = TypeAdapter(TrainingJob)
CATALOG: Mapping[str, TrainingJob] = {
    name: _JOB.validate_json(json.dumps({**fields, "name": name}), by_alias=True, by_name=False)
    for name, fields in DECLARED.items()
}
