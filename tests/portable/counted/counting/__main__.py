# ruff: noqa: T201 - it prints, as scripts do
"""Prints numbers that its job's `metrics` find, and leaves another in metrics.json."""

import json
import os
import sys
from pathlib import Path

words = Path("words.txt").read_text().split()
for epoch in range(1, int(sys.argv[2]) + 1):
    print(f"epoch {epoch} of {words[0]}: loss={1 / (epoch * int(os.environ['STEP'])):.4f}")
Path(os.environ["SLIPWAY_OUTPUT_DIR"], "metrics.json").write_text(json.dumps({"accuracy": 0.75}))
