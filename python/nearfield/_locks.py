"""Threads that use one index: its rows and their ids change together."""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Lock:
    """Lets many read, or one change. Who waits to change keeps later readers out."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._state = threading.Condition()
        # How many calls each thread is in.
        self._readers: dict[int, int] = {}
        self._changing: int | None = None
        self._waiting = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Whoever holds it is not in the pickle.
        return Lock, ()

    def _here(self) -> int:
        if self._process != os.getpid():
            # The threads that held it do not run in a forked process.
            self.__init__()  # type: ignore[misc]
        return threading.get_ident()

    @contextmanager
    def reading(self) -> Iterator[None]:
        thread = self._here()
        with self._state:
            # A call from within another one of this thread, such as a handler of a signal, would wait for itself.
            if thread not in self._readers and self._changing != thread:
                self._state.wait_for(lambda: self._changing is None and not self._waiting)
            self._readers[thread] = self._readers.get(thread, 0) + 1
        try:
            yield
        finally:
            with self._state:
                self._readers[thread] -= 1
                if not self._readers[thread]:
                    del self._readers[thread]
                self._state.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        thread = self._here()
        with self._state:
            if thread in self._readers or self._changing == thread:
                raise RuntimeError("index: needed a change that is not made from within another call of this index")
            self._waiting += 1
            try:
                self._state.wait_for(lambda: self._changing is None and not self._readers)
                self._changing = thread
            finally:
                self._waiting -= 1
                self._state.notify_all()
        try:
            yield
        finally:
            with self._state:
                self._changing = None
                self._state.notify_all()


def _holding(hold: Callable[[Lock], Any]) -> Callable[[_Method], _Method]:
    def decorated(method: _Method) -> _Method:
        @functools.wraps(method)
        def locked(self: Any, *arguments: Any, **options: Any) -> Any:
            with hold(self._lock):
                return method(self, *arguments, **options)

        return locked  # type: ignore[return-value]

    return decorated


# Decorates a method beside which others may read the index.
reads = _holding(Lock.reading)

# Decorates a method that needs the index alone.
changes = _holding(Lock.changing)
