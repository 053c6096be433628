"""Indexes that come out of a pickle."""

from collections.abc import Callable
from typing import Any, NoReturn

from nearfield import _native


class Unusable:
    """An index in a forked process, which cannot have one: a use of it raises `nearfield.Error`.

    An exception where it is unpickled would leave a `multiprocessing.Pool` waiting for ever.
    """

    def __init__(self, unpickle: Callable[[bytes, str | None], Any], data: bytes, device: str | None) -> None:
        self._unpickle, self._arguments = unpickle, (data, device)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._unpickle, self._arguments

    def _refuse(self, *_: object) -> NoReturn:
        _native.from_bytes(*self._arguments)
        raise AssertionError("a forked process has an index")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()

    __len__ = __contains__ = _refuse


def index(data: bytes, device: str | None) -> Any:
    """The index with these bytes, on a device or on the best."""
    return Unusable(index, data, device) if _native._is_forked() else _native.from_bytes(data, device)


def documents(data: bytes, device: str | None) -> Any:
    """The same for an index of documents."""
    return Unusable(documents, data, device) if _native._is_forked() else _native.MultiVector.from_bytes(data, device)
