"""Programs of a test's own that stand for others: shell scripts."""

from pathlib import Path


def shell_program(file: Path, script: str) -> Path:
    """Write a shell script that runs as a program; return its file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file
