"""How far a long call is: a bar of tqdm, or the caller's function."""

import importlib
from collections.abc import Callable
from typing import Any


class Shown:
    """The caller's function, which the Rust part tells how many rows, queries or iterations are done."""

    def __init__(self, function: Callable[[str, int, int], object], stage: str, total: int) -> None:
        self._function, self._stage, self._total = function, stage, total

    def update(self, done: int) -> None:
        self._function(self._stage, done, self._total)

    def close(self, is_done: bool) -> None:
        """Ends it. Training may have ended before its last iteration."""


class Bar(Shown):
    """A bar of tqdm."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def update(self, done: int) -> None:
        self._bar.update(done - self._bar.n)

    def close(self, is_done: bool) -> None:
        if is_done:
            self.update(self._bar.total)
        self._bar.close()


def start(progress: object, stage: str, total: int) -> Shown | None:
    """Starts to show a stage, "adding", "training" or "searching", of `total` steps. None where nothing is to be shown."""
    if progress is None or progress is False:
        return None
    if callable(progress):
        return Shown(progress, stage, total)
    if progress is not True:
        raise TypeError(f"progress: needed True, False or a function of (stage, done, total), given {type(progress).__name__}")
    try:
        tqdm: Any = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
    return Bar(tqdm(total=total, desc=f"nearfield: {stage}", unit_scale=True))
