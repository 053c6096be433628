"""Arguments as faiss names them, checked."""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._arrays import _to_array, to_integers

# What nearfield calls these arguments.
_NAMES = {"rows": "x", "queries": "x", "dim": "d"}


class Settings:
    """An object with these attributes and no others: a misspelt one would have no effect."""

    _SETTINGS: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in self._SETTINGS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; it has {', '.join(sorted(self._SETTINGS))}")
        super().__setattr__(name, value)


@contextmanager
def faiss_names() -> Iterator[None]:
    """Errors of nearfield's inside name the arguments as faiss does."""
    try:
        yield
    except (TypeError, ValueError) as error:
        name, _, rest = str(error).partition(": ")
        if name not in _NAMES:
            raise
        raise type(error)(f"{_NAMES[name]}: {rest}") from None


def check_kind(name: str, given: object, kind: type) -> None:
    if not isinstance(given, kind):
        raise TypeError(f"{name}: needed an object of {kind.__name__}, given {type(given).__name__}")


def as_integer(name: str, given: Any, least: int = -(2**63)) -> int:
    try:
        integer = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}: needed an integer, given {type(given).__name__}") from None
    if integer < least:
        raise ValueError(f"{name}: needed at least {least}, given {integer}")
    if integer >= 2**63:
        raise ValueError(f"{name}: needed at most 2^63 - 1, given {integer}")
    return integer


def as_vectors(name: str, given: Any, d: int) -> NDArray[np.float32]:
    """Vectors `[n, d]` of any numbers as float32, in C order."""
    array = _to_array(given, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: needed numbers, given {array.dtype}")
    if array.ndim != 2 or array.shape[1] != d:
        raise ValueError(f"{name}: needed the shape [n, {d}], given {list(array.shape)}")
    # An overflow becomes an infinity, which the index reports with its row.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def as_bits(name: str, given: Any, code_size: int) -> NDArray[np.uint8]:
    """Bytes `[n, code_size]` of eight bits each, in C order."""
    array = _to_array(given, name)
    if array.dtype != np.uint8:
        raise TypeError(f"{name}: needed uint8, whose bytes are of eight bits each, given {array.dtype}")
    if array.ndim != 2 or array.shape[1] != code_size:
        raise ValueError(f"{name}: needed the shape [n, {code_size}], given {list(array.shape)}")
    return np.ascontiguousarray(array)


def as_ids(name: str, given: Any) -> NDArray[np.int64]:
    """Ids `[n]` as int64, which every integer type converts to; floats do not. As in faiss, 2^63 and more become negative."""
    ids = to_integers(given, name)
    if ids.dtype.kind == "O":
        raise TypeError(f"{name}: needed integers of 64 bits, given larger ones")
    return ids.astype(np.int64, copy=False)
