"""Threads that use one index: its rows and their ids change together."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Lock:
    """Lets many read, or one change. Who waits to change keeps later readers out."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._readers = 0
        self._changes = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Whoever holds it is not in the pickle.
        return Lock, ()

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._state:
            self._state.wait_for(lambda: not self._changes)
            self._readers += 1
        try:
            yield
        finally:
            with self._state:
                self._readers -= 1
                self._state.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self._state:
            self._changes += 1
            try:
                # The state's own lock is held to the end, which keeps other changes out.
                self._state.wait_for(lambda: not self._readers)
                yield
            finally:
                self._changes -= 1
                self._state.notify_all()


def reads(method: _Method) -> _Method:
    """A method beside which others read the index."""

    @functools.wraps(method)
    def locked(self: Any, *arguments: Any, **options: Any) -> Any:
        with self._lock.reading():
            return method(self, *arguments, **options)

    return locked  # type: ignore[return-value]


def changes(method: _Method) -> _Method:
    """A method that has the index alone."""

    @functools.wraps(method)
    def locked(self: Any, *arguments: Any, **options: Any) -> Any:
        with self._lock.changing():
            return method(self, *arguments, **options)

    return locked  # type: ignore[return-value]
