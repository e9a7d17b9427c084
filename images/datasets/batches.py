"""Writes CIFAR-10's own python format: pickles, as Python 2 and its numpy wrote them.

The format is described at https://www.cs.toronto.edu/~kriz/cifar.html. Python 3's pickle module
can't write Python 2's strings, and what it writes of an array depends on the version of numpy; so
the few opcodes (see `pickletools`) are put down here, and give the same bytes everywhere.
"""

import pickle
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rows:
    """A numpy array (n, width) of uint8, by its bytes."""

    data: bytes
    width: int


Value = str | int | Rows | Sequence["Value"]


def dump(batch: Mapping[str, Value]) -> bytes:
    """Return the pickle, in protocol 2, of a dictionary."""
    items = b"".join(_string(key) + _value(value) for key, value in batch.items())
    whole = pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS
    return pickle.PROTO + b"\x02" + whole + pickle.STOP


def _value(value: Value) -> bytes:
    match value:
        case str():
            return _string(value)
        case int():
            return pickle.BININT + struct.pack("<i", value)
        case Rows():
            return _array(value)
        case _:
            listed = b"".join(map(_value, value))
            return pickle.EMPTY_LIST + pickle.MARK + listed + pickle.APPENDS


def _string(text: str) -> bytes:
    """A Python 2 `str`: whoever reads it chooses the encoding."""
    return _bytes(text.encode("ascii"))


def _bytes(data: bytes) -> bytes:
    return pickle.BINSTRING + struct.pack("<i", len(data)) + data


def _array(rows: Rows) -> bytes:
    """What numpy's `ndarray.__reduce__` says of a C-contiguous array, by its name in numpy 1."""
    empty = _global("numpy ndarray") + _tuple(_value(0)) + _string("b")
    kind = _global("numpy dtype") + _tuple(_string("u1"), _value(0), _value(1)) + pickle.REDUCE
    order = (_value(3), _string("|"), pickle.NONE, pickle.NONE, pickle.NONE)
    kind += _tuple(*order, _value(-1), _value(-1), _value(0)) + pickle.BUILD
    shape = _tuple(_value(len(rows.data) // rows.width), _value(rows.width))
    made = _global("numpy.core.multiarray _reconstruct") + _tuple(empty) + pickle.REDUCE
    state = _tuple(_value(1), shape, kind, pickle.NEWFALSE, _bytes(rows.data))
    return made + state + pickle.BUILD


def _global(name: str) -> bytes:
    return pickle.GLOBAL + name.replace(" ", "\n").encode() + b"\n"


def _tuple(*members: bytes) -> bytes:
    return pickle.MARK + b"".join(members) + pickle.TUPLE
