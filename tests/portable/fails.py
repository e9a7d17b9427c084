# ruff: noqa: T201 - it prints, as scripts do
"""Rank 1 fails in a function of its own, while rank 0 would go on for long."""

import os
import time


def label(number: int) -> int:
    raise ValueError(f"label {number} is out of range")


if os.environ["RANK"] == "1":
    print("rank 1 is about to fail")
    label(11)
time.sleep(600)
