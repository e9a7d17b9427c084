"""The record is trusted only while file and demand are the same as when it was written."""

from pathlib import Path

import pytest

from core import toolchain
from scripts.setup import record
from scripts.setup.record import Entry
from scripts.setup.tools import Range, Tool

RUNC = Tool("runc", Range("1.1"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "runc"
    path.write_text("one")
    return path


def test_what_is_saved_is_loaded_and_is_what_the_toolchain_reads(program: Path) -> None:
    entries = {"runc": Entry.from_file(program, "1.1.5", "on PATH", RUNC.stamp)}
    record.save(entries)
    assert record.load() == entries
    assert record.unchanged(entries, (RUNC,)) == entries
    assert toolchain.tool("runc") == toolchain.Tool("runc", program, "1.1.5")


def test_a_changed_file_or_a_raised_demand_is_looked_at_again(program: Path) -> None:
    entries = {"runc": Entry.from_file(program, "1.1.5", "on PATH", RUNC.stamp)}
    assert record.unchanged(entries, (Tool("runc", Range("1.2")),)) == {}
    program.write_text("another")
    assert record.unchanged(entries, (RUNC,)) == {}
    program.unlink()
    assert record.unchanged(entries, (RUNC,)) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"tools": {"runc": {"path": "/x"}}}'])
def test_a_record_that_cannot_be_read_is_as_none(content: str) -> None:
    toolchain.record().parent.mkdir()
    toolchain.record().write_text(content)
    assert record.load() == {}
